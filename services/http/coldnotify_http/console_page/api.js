// The page /v1/docs: shows /v1/openapi.json to people, one operation below the other, and fetches nothing else.

const node = (name, text = "", ...children) => {
  const made = document.createElement(name);
  made.append(...(text ? [text] : []), ...children);
  return made;
};

const table = (heads, rows) =>
  node(
    "table", "",
    node("thead", "", node("tr", "", ...heads.map((head) => node("th", head)))),
    node("tbody", "", ...rows.map((cells) => node("tr", "", ...cells.map((cell) => node("td", "", cell))))),
  );

const resolved = (api, one) => {
  if (!one.$ref) return one;
  const [, , kind, name] = one.$ref.split("/");
  return api.components[kind][name];
};

/** A schema in few words, with links to those that have a name. */
const typed = (schema) => {
  if (schema.$ref) {
    const name = schema.$ref.split("/").pop();
    const link = node("a", name);
    link.href = `#${name}`;
    return link;
  }
  if (schema.anyOf) return node("span", "", ...schema.anyOf.flatMap((one, at) => [at ? " or " : "", typed(one)]));
  if (schema.enum) return node("span", schema.enum.join(", "));
  const words = [schema.type ?? "any JSON"].flat().join(" or ");
  if (schema.items) return node("span", `${words} of `, typed(schema.items));
  if (schema.additionalProperties) return node("span", `${words} of `, typed(schema.additionalProperties));
  if (schema.contentSchema) return typed(schema.contentSchema);
  const bounds = ["minimum", "exclusiveMinimum", "maximum", "maxLength", "maxItems", "pattern", "default"]
    .filter((name) => schema[name] !== undefined)
    .map((name) => `, ${name} ${schema[name]}`);
  return node("span", words + bounds.join(""));
};

const content = (answer) =>
  node(
    "span", "",
    ...Object.entries(answer.content ?? {}).flatMap(([kind, { schema }], at) => [
      at ? ", " : "",
      kind === "application/json" ? "" : `${kind} `,
      schema.$ref || kind === "application/json" ? typed(schema) : typed(schema.properties?.data ?? {}),
    ]),
  );

const operation = (api, method, path, said) => {
  const parts = [node("h3", "", node("code", `${method.toUpperCase()} ${path}`))];
  parts.push(node("p", [said.summary, said.description].filter(Boolean).join(". ")));
  const parameters = said.parameters.map((one) => resolved(api, one));
  if (parameters.length) {
    const rows = parameters.map((one) => [
      node("code", one.name + (one.required ? "" : "?")), one.in, typed(one.schema), one.description,
    ]);
    parts.push(table(["parameter", "in", "type", ""], rows));
  }
  if (said.requestBody) parts.push(node("p", "Body: ", content(said.requestBody)));
  const answers = Object.entries(said.responses).map(([status, one]) => {
    const answer = resolved(api, one);
    return [status, content(answer), answer.description];
  });
  parts.push(table(["status", "answer", ""], answers));
  return node("section", "", ...parts);
};

const schema = (name, said) => {
  const heading = node("h3", name);
  heading.id = name;
  const rows = Object.entries(said.properties ?? {}).map(([field, one]) => [
    node("code", field + (said.required?.includes(field) ? "" : "?")), typed(one), one.description ?? "",
  ]);
  const fields = rows.length ? table(["field", "type", ""], rows) : typed(said);
  return node("section", "", heading, node("p", said.description), fields);
};

const show = async () => {
  const answer = await fetch("/v1/openapi.json");
  if (!answer.ok) throw new Error(`/v1/openapi.json: ${answer.status}`);
  const api = await answer.json();
  const all = Object.entries(api.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, said]) => [method, path, said]),
  );
  const tags = api.tags.flatMap(({ name }) => [
    node("h2", name),
    ...all.filter(([, , said]) => said.tags[0] === name).map((one) => operation(api, ...one)),
  ]);
  const schemas = Object.entries(api.components.schemas).map((one) => schema(...one));
  document.getElementById("api").replaceChildren(
    node("h1", `${api.info.title} ${api.info.version}`),
    node("p", api.info.description),
    ...tags, node("h2", "Schemas"), ...schemas,
  );
};

show().catch((error) => {
  document.getElementById("api").replaceChildren(node("p", `The description cannot be shown: ${error.message}`));
});
