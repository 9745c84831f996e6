"""Prediction of data sets that one machine does not hold, on Ray Data (extra `luvli[scale]`).

    luvli predict s3://bucket/frames --engine ray --address auto --out s3://bucket/faces

Read `ray_predict.py` first: a source is planned into parts, each part goes through reading,
network and writing as one row, and its result is one Parquet file that appears whole.
"""
