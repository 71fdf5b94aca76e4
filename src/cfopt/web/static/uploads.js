// Images that are brought along: cut to the shape of a map, made smaller where they are large, encoded.

import { byId, el } from "./dom.js";

const LARGE = 1024; // pixels along the longer side: a map has 96, so that nothing is lost
const HEAVY = 1_500_000; // bytes beyond which a picture is sent with some loss
const CHUNK = 8192; // arguments that one call takes at once
const ALIKE = 0.02; // up to this fraction another shape is squeezed
const PREVIEW = 420; // pixels along the longer side of what is shown for cutting

/** A file as base64, in the shape of {width, height}; null if its cutting was given up. */
export async function encoded(file, size) {
  const picture = await read(file);
  const own = picture.width === size.width && picture.height === size.height;
  if (own && /png|jpeg/.test(file.type)) return base64(file); // every pixel as it is
  const part = await chosen(picture, size);
  return part && base64(await drawn(picture, part));
}

async function read(file) {
  try {
    return await createImageBitmap(file);
  } catch {
    throw new Error(`${file.name} is not an image that this browser can read. Choose a PNG, a JPEG or a WebP.`);
  }
}

/** A part of a picture, {x, y, width, height}, as a file. */
async function drawn(picture, { x, y, width, height }) {
  const scale = Math.min(1, LARGE / Math.max(width, height));
  const [wide, high] = [width, height].map((length) => Math.max(1, Math.round(length * scale)));
  const canvas = el("canvas", { width: wide, height: high });
  canvas.getContext("2d").drawImage(picture, x, y, width, height, 0, 0, wide, high);
  const saved = (...kind) => new Promise((resolve) => canvas.toBlob(resolve, ...kind));
  const whole = await saved("image/png");
  return whole.size > HEAVY ? saved("image/jpeg", 0.92) : whole;
}

async function base64(blob) {
  const bytes = new Uint8Array(await blob.arrayBuffer());
  let text = "";
  for (let k = 0; k < bytes.length; k += CHUNK) text += String.fromCharCode(...bytes.subarray(k, k + CHUNK));
  return btoa(text);
}

/** The largest part of a picture with the shape of a map that begins at a fraction of what is left over. */
function partOf({ width, height }, size, at) {
  const shape = size.width / size.height;
  const wide = Math.min(width, height * shape);
  const high = Math.min(height, width / shape);
  return { x: (width - wide) * at, y: (height - high) * at, width: wide, height: high };
}

/** The part that is to be used: all of it if it has the shape, else what a person chooses; null if none. */
async function chosen(picture, size) {
  const shapes = [picture, size].map(({ width, height }) => width / height);
  const whole = { x: 0, y: 0, width: picture.width, height: picture.height };
  if (Math.abs(shapes[0] / shapes[1] - 1) <= ALIKE) return whole;
  const dialog = byId("crop");
  const slider = byId("crop-at");
  const scale = PREVIEW / Math.max(picture.width, picture.height);
  const canvas = byId("crop-picture");
  Object.assign(canvas, { width: Math.round(picture.width * scale), height: Math.round(picture.height * scale) });
  const pen = canvas.getContext("2d");
  const part = () => partOf(picture, size, Number(slider.value) / 100);
  const show = () => {
    const box = Object.values(part()).map((length) => length * scale);
    pen.drawImage(picture, 0, 0, canvas.width, canvas.height);
    pen.fillStyle = "rgb(20 20 18 / .6)";
    pen.beginPath();
    pen.rect(0, 0, canvas.width, canvas.height);
    pen.rect(...box);
    pen.fill("evenodd");
    pen.strokeStyle = "#fff";
    pen.lineWidth = 2;
    pen.strokeRect(...box);
  };
  slider.value = 50;
  slider.oninput = show;
  show();
  dialog.returnValue = "";
  dialog.showModal();
  await new Promise((resolve) => dialog.addEventListener("close", resolve, { once: true }));
  return { part: part(), all: whole }[dialog.returnValue] ?? null;
}
