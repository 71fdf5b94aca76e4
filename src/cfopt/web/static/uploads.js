// Images that are brought along: read, made smaller where they are large, encoded.

import { el } from "./dom.js";

const LARGE = 1024; // pixels along the longer side: a map has 96, so that nothing is lost
const HEAVY = 1_500_000; // bytes that are sent as they are
const CHUNK = 8192; // arguments that one call takes at once

/** A file as base64; photographs are made smaller first. */
export async function encoded(file) {
  const blob = file.size > HEAVY ? await smaller(file) : file;
  const bytes = new Uint8Array(await blob.arrayBuffer());
  let text = "";
  for (let k = 0; k < bytes.length; k += CHUNK) text += String.fromCharCode(...bytes.subarray(k, k + CHUNK));
  return btoa(text);
}

async function smaller(file) {
  try {
    const bitmap = await createImageBitmap(file);
    const scale = Math.min(1, LARGE / Math.max(bitmap.width, bitmap.height));
    const [width, height] = [bitmap.width, bitmap.height].map((size) => Math.max(1, Math.round(size * scale)));
    const canvas = el("canvas", { width, height });
    canvas.getContext("2d").drawImage(bitmap, 0, 0, width, height);
    return await new Promise((resolve) => canvas.toBlob(resolve, "image/jpeg", 0.92));
  } catch {
    throw new Error(
      `${file.name} is not an image that this browser can read, and it is too large to send. Choose a PNG or a JPEG.`,
    );
  }
}
