/** Bytes of payloads, as callbacks get them. */

const fromUtf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Returns what the bytes say as JSON, else the bytes. */
export function saidBy(data: Uint8Array): unknown {
  try {
    return JSON.parse(fromUtf8.decode(data));
  } catch {
    return data;
  }
}

/** Returns bytes as a text in base64. */
export function base64Of(data: Uint8Array): string {
  let text = "";
  for (const byte of data) text += String.fromCharCode(byte);
  return btoa(text);
}

/** Returns the bytes of a text in base64. Throws if it is none. */
export function bytesOfBase64(text: string): Uint8Array {
  return Uint8Array.from(atob(text), (one) => one.charCodeAt(0));
}
