/**
 * Joins screenshots of one size to an animated PNG (https://www.w3.org/TR/png-3/#apng-frame-based-animation) with one palette,
 * which makes it a fifth as large.
 */

import { crc32, deflateSync, inflateSync } from "node:zlib";

const SIGNATURE = Buffer.from("89504e470d0a1a0a", "hex");
const LAST_FRAME_MS = 3_000;

/** Returns the animation of `frames`: each has a PNG, and the time at which it was taken, ms. */
export function animated(frames) {
  const palette = new Map();
  const images = frames.map(({ png }) => indexed(png, palette));
  const { width, height } = images[0];
  let sequence = 0;
  const header = Buffer.concat([u32(width, height), Buffer.from([8, 3, 0, 0, 0])]);
  const colours = Buffer.concat([...palette.values()].map(({ rgb }) => rgb));
  const parts = [SIGNATURE, chunk("IHDR", header), chunk("acTL", u32(frames.length, 0)), chunk("PLTE", colours)];
  images.forEach(({ rows }, index) => {
    const ms = index + 1 < frames.length ? frames[index + 1].at - frames[index].at : LAST_FRAME_MS;
    const control = Buffer.concat([
      u32(sequence++, width, height, 0, 0),
      Buffer.from([ms >> 8, ms & 255, 3, 232, 0, 0]),
    ]);
    parts.push(chunk("fcTL", control));
    const data = deflateSync(rows, { level: 9 });
    parts.push(index ? chunk("fdAT", Buffer.concat([u32(sequence++), data])) : chunk("IDAT", data));
  });
  return Buffer.concat([...parts, chunk("IEND", Buffer.alloc(0))]);
}

/** Returns the rows of a PNG as indices into the palette. Adds missing colours to the palette; similar ones share an entry. */
function indexed(png, palette) {
  const { width, height, channels, pixels } = decoded(png);
  const rows = Buffer.alloc((width + 1) * height);
  for (let y = 0, from = 0; y < height; y += 1) {
    for (let x = 1; x <= width; x += 1, from += channels) {
      const rgb = pixels.subarray(from, from + 3);
      const key = ((rgb[0] >> 4) << 8) | ((rgb[1] >> 4) << 4) | (rgb[2] >> 4);
      if (!palette.has(key)) palette.set(key, { index: palette.size, rgb });
      rows[y * (width + 1) + x] = palette.get(key).index;
    }
  }
  if (palette.size > 256) throw new Error(`a palette has 256 colours, and these frames have ${palette.size}`);
  return { width, height, rows };
}

/** Returns the pixels of a PNG with 8 bits per channel, with or without alpha. */
function decoded(png) {
  const all = chunks(png);
  const header = all.find(({ type }) => type === "IHDR").data;
  const [width, height, channels] = [header.readUInt32BE(0), header.readUInt32BE(4), header[9] === 6 ? 4 : 3];
  const data = inflateSync(Buffer.concat(all.filter(({ type }) => type === "IDAT").map((part) => part.data)));
  const stride = width * channels;
  const pixels = Buffer.alloc(stride * height);
  for (let y = 0; y < height; y += 1) {
    const filter = data[y * (stride + 1)];
    for (let x = 0; x < stride; x += 1) {
      const at = y * stride + x;
      const left = x < channels ? 0 : pixels[at - channels];
      const up = y ? pixels[at - stride] : 0;
      const corner = y && x >= channels ? pixels[at - stride - channels] : 0;
      pixels[at] = data[y * (stride + 1) + 1 + x] + [0, left, up, (left + up) >> 1, paeth(left, up, corner)][filter];
    }
  }
  return { width, height, channels, pixels };
}

/** Returns the prediction of the Paeth filter (https://www.w3.org/TR/png-3/#9Filter-type-4-Paeth). */
function paeth(left, up, corner) {
  const [byLeft, byUp, byCorner] = [left, up, corner].map((value) => Math.abs(left + up - corner - value));
  return byLeft <= byUp && byLeft <= byCorner ? left : byUp <= byCorner ? up : corner;
}

function chunks(png) {
  const all = [];
  for (let at = SIGNATURE.length; at < png.length; ) {
    const length = png.readUInt32BE(at);
    all.push({ type: png.toString("latin1", at + 4, at + 8), data: png.subarray(at + 8, at + 8 + length) });
    at += length + 12;
  }
  return all;
}

function u32(...values) {
  const bytes = Buffer.alloc(4 * values.length);
  values.forEach((value, index) => bytes.writeUInt32BE(value, 4 * index));
  return bytes;
}

function chunk(type, data) {
  const body = Buffer.concat([Buffer.from(type, "latin1"), data]);
  return Buffer.concat([u32(data.length), body, u32(crc32(body))]);
}
