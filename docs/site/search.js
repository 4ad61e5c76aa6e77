// Asks the site's search for the words that matter. Material's worker looks for every word as a beginning, so "a" would
// find each word with an a, and "certificates" no "certificate". Runs before Material's own script.
(() => {
  const IGNORED = new Set(
    "a an and are as at be by can do does for from how i if in is it me my of on or our the this to what when where which who why with you your".split(" "),
  );
  const QUERY = 2; // SearchMessageType.QUERY of Material's worker

  const asked = (text) => {
    const words = text.toLowerCase().match(/["+-]?[\p{L}\p{N}_]+(?:[.,]\p{N}+)*"?/gu) ?? [];
    const kept = words.filter((word) => !IGNORED.has(word));
    return (kept.length ? kept : words)
      .map((word) => (word.length < 3 ? `${word}^1` : word.replace(/^(\p{L}{4,}?)(?:ies|ing|es|ed|s|e|y)$/u, "$1")))
      .join(" ");
  };

  const post = Worker.prototype.postMessage;
  Worker.prototype.postMessage = function (message, ...rest) {
    const sent = message?.type === QUERY ? { ...message, data: asked(message.data) } : message;
    return post.call(this, sent, ...rest);
  };
})();
