// The metadata of an ONNX file, which onnxruntime-web does not hand out: field 14 of the protocol
// buffer ModelProto holds entries of key (1) and value (2).

import type { Description } from "./types.js";

/** What a model file says about itself. */
export function readDescription(file: Uint8Array): Description {
  for (const [field, entry] of fields(file)) {
    if (field !== 14) continue;
    const parts = new Map([...fields(entry)].map(([number, bytes]) => [number, new TextDecoder().decode(bytes)]));
    if (parts.get(1) === "description") return JSON.parse(parts.get(2)!) as Description;
  }
  throw new Error("this is not a luvli model of format luvli-onnx-2: export it again with luvli export");
}

/** The fields of a message that have a length, by number. */
function* fields(message: Uint8Array): Generator<[number, Uint8Array]> {
  let place = 0;
  const number = () => {
    let value = 0;
    for (let shift = 1; ; shift *= 128) {
      const byte = message[place++];
      value += (byte & 127) * shift;
      if (!(byte & 128)) return value;
    }
  };
  while (place < message.length) {
    const tag = number();
    const kind = tag & 7;
    if (kind === 2) {
      const length = number();
      yield [tag >>> 3, message.subarray(place, place + length)];
      place += length;
    } else if (kind === 0) number();
    else if (kind === 1 || kind === 5) place += kind === 1 ? 8 : 4;
    else throw new Error("this is not an ONNX file");
  }
}
