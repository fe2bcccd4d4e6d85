// Writes the brotli form of a file beside it: node compress.mjs FILE
import { readFileSync, writeFileSync } from "node:fs";
import { brotliCompressSync, constants } from "node:zlib";

for (const name of process.argv.slice(2)) {
  const bytes = readFileSync(name);
  const params = {
    [constants.BROTLI_PARAM_QUALITY]: 11,
    [constants.BROTLI_PARAM_LGWIN]: 24,
    [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length,
  };
  writeFileSync(`${name}.br`, brotliCompressSync(bytes, { params }));
}
