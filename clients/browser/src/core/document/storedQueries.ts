/**
 * The fields for queries in the client's durable state, if there are any.
 *
 * They are those of `stored_queries` in `clients/python/coldnotify/_core/document`; numbers of 64 bits are texts.
 */

import { StateDamaged } from "../../errors.js";
import { byQuery, type Interest, queryOf } from "../interests/interests.js";
import type { MembersChange, KeptQuery } from "../delivery/membership.js";
import { checkQuery } from "../../schemas/names.js";
import type { OperationKind } from "../interests/registrations.js";
import { checkedObject, type Fields, numberOf, operationsOf, pairs, table } from "./storedFields.js";

/** Returns the document's fields for queries, or none. */
export function encodeQueries(
  queries: ReadonlyMap<string, KeptQuery>,
  pending: ReadonlyMap<Interest, OperationKind>,
): Fields {
  const operations = [...pending].flatMap(([interest, kind]): [string, OperationKind][] => {
    const text = queryOf(interest);
    return text === null ? [] : [[text, kind]];
  });
  if (queries.size + operations.length === 0) return {};
  const entries = [...queries].sort(([one], [other]) => (one < other ? -1 : 1));
  return { queries: pairs(entries.map(([text, kept]) => [text, encodeKept(kept)])), pending_queries: pairs(operations) };
}

function encodeKept(kept: KeptQuery): Fields {
  const { members, telling, followed, dropped, entering, answer, reached, descriptions } = kept;
  const list = (names: ReadonlySet<string>): string[] => [...names].sort();
  return {
    members: list(members),
    ...(telling && { telling: { added: list(telling.added), removed: list(telling.removed) } }),
    ...(followed && { followed }),
    ...(dropped && { dropped }),
    ...(entering.size > 0 && { entering: list(entering) }),
    ...(answer && reached && { answer: { members: list(answer), reached: reached.name, reached_at: String(reached.offset) } }),
    ...(descriptions && { descriptions: pairs([...descriptions].sort(([one], [other]) => (one < other ? -1 : 1))) }),
  };
}

/** Parses the document's fields. Throws StateDamaged. */
export function decodeQueries(fields: Fields): { queries: Map<string, KeptQuery>; pending: Map<Interest, OperationKind> } {
  const queries = new Map<string, KeptQuery>();
  for (const [text, entry] of table(fields, "queries")) queries.set(query("queries", text), decodeKept(entry));
  const entries = table(fields, "pending_queries").map(([text, kind]): [string, unknown] => [query("pending_queries", text), kind]);
  const operations = operationsOf("pending_queries", entries, queries, "queries");
  const pending = new Map([...operations].map(([text, kind]) => [byQuery(text), kind]));
  return { queries, pending };
}

function decodeKept(entry: unknown): KeptQuery {
  const fields = part("an entry", entry);
  const { members, telling, followed = false, dropped = false, entering = [], answer } = fields;
  const names = (what: string, list: unknown): ReadonlySet<string> => {
    if (!Array.isArray(list)) throw new StateDamaged(`queries: ${what} is not a list`);
    return new Set(list.map((name) => checkedObject("queries", name)));
  };
  if (typeof followed !== "boolean") throw new StateDamaged("queries: followed is not true or false");
  if (typeof dropped !== "boolean") throw new StateDamaged("queries: dropped is not true or false");
  let change: MembersChange | null = null;
  if (telling !== undefined) {
    const { added, removed } = part("telling", telling);
    change = { added: names("telling.added", added), removed: names("telling.removed", removed) };
  }
  const described = ([name, text]: [string, unknown]): [string, string] => {
    if (typeof text !== "string") throw new StateDamaged("queries: descriptions has an entry that is not a text");
    return [checkedObject("queries", name), text];
  };
  const kept: KeptQuery = {
    members: names("members", members),
    telling: change,
    followed,
    dropped,
    entering: names("entering", entering),
    answer: null,
    reached: null,
    descriptions: "descriptions" in fields ? new Map(table(fields, "descriptions").map(described)) : null,
  };
  if (answer === undefined) return kept;
  const { members: came, reached, reached_at: offset } = part("answer", answer);
  return {
    ...kept,
    answer: names("answer.members", came),
    reached: { name: checkedObject("queries", reached), offset: numberOf("queries", offset) },
  };
}

function part(what: string, value: unknown): Fields {
  if (typeof value !== "object" || value === null) throw new StateDamaged(`queries: ${what} is not an object`);
  return value as Fields;
}

function query(field: string, text: string): string {
  try {
    return checkQuery(text);
  } catch (error) {
    throw new StateDamaged(`${field}: ${(error as Error).message}`);
  }
}
