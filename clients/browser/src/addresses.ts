/** The gateways' WebSocket addresses that the application gives, or its page's own. */

/** Returns the addresses as URLs. Throws RangeError. */
export function addressesOf(given: string | readonly string[] | undefined): string[] {
  const entries = given === undefined ? [pageAddress()] : typeof given === "string" ? [given] : [...given];
  if (entries.length === 0) throw new RangeError("address: is empty");
  const addresses = entries.map((entry) => {
    let url: URL;
    try {
      url = new URL(entry);
    } catch {
      throw new RangeError(`address: ${JSON.stringify(entry)} is not a URL`);
    }
    if (url.protocol !== "ws:" && url.protocol !== "wss:") {
      throw new RangeError(`address: ${JSON.stringify(entry)} is no ws:// or wss:// URL`);
    }
    if (url.hash !== "") throw new RangeError(`address: ${JSON.stringify(entry)} has a fragment (#)`);
    if (url.pathname === "/") url.pathname = "/v1/connect";
    return url.href;
  });
  return [...new Set(addresses)];
}

function pageAddress(): string {
  const page = (globalThis as { location?: Location }).location;
  if (page === undefined) throw new RangeError("address: is missing, and no page provides one");
  return `${page.protocol === "https:" ? "wss" : "ws"}://${page.host}/v1/connect`;
}
