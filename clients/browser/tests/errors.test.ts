/** The errors' names, as an application sees them in its own bundle. */

import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";

import { build } from "esbuild";

import * as errors from "../src/errors.js";

type Classes = Record<string, new (...fields: unknown[]) => Error>;

test("a minifier changes no error's name", async () => {
  const entry = join(import.meta.dirname, "../src/errors.js");
  const { outputFiles } = await build({ entryPoints: [entry], bundle: true, minify: true, format: "esm", write: false });
  const text = outputFiles[0]?.text ?? "";
  const minified = (await import(`data:text/javascript,${encodeURIComponent(text)}`)) as Classes;
  assert.deepEqual(Object.keys(minified).sort(), Object.keys(errors).sort());
  for (const [name, made] of Object.entries(minified)) {
    const error = new made({ channel: "tasks", after: null, before: 1, reason: "EXPIRED" });
    assert.equal(error.name, name);
    assert(error instanceof (minified["ColdNotifyError"] as Classes[string]), name);
  }
  assert.notEqual(minified["StateError"]?.name, "StateError", "it is minified");
});
