"""Publishes many versions by HTTP: a request takes up to 1,000 of them, one request follows the other."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from coldnotify._core.publishing.outgoing import Outgoing
from coldnotify._publishing.outbox_by_http import RecordsRequest, VersionRefused, requests_of
from coldnotify._publishing.published import Published, PublishError, PublishRejected

PostRequest = Callable[[RecordsRequest], dict[str, Any]]
"""Sends a request and returns its answer, which has `results`. Raises ValueError, PublishError."""


def publish_all(outgoings: Sequence[Outgoing], post: PostRequest) -> list[Published | PublishError]:
    """Returns what became of each, in order. Behind a request with one that failed, none is sent."""
    outcomes: list[Published | PublishError] = []
    for request in requests_of(outgoings):
        begin = len(outcomes)
        outcomes += _outcomes(request, post, begin)
        if any(isinstance(one, PublishError) for one in outcomes[begin:]):
            break
    left = len(outgoings) - len(outcomes)
    return outcomes + [PublishError("not tried: one before it failed", indeterminate=False) for _ in range(left)]


def _outcomes(request: RecordsRequest, post: PostRequest, begin: int) -> list[Published | PublishError]:
    try:
        results = post(request)["results"]
        return [_outcome(result, one) for one, result in zip(request.records, results, strict=True)]
    except VersionRefused as refused:
        at_fault = next((i for i, one in enumerate(request.records) if one.name == refused.name), None)
        if at_fault is None:
            return [PublishRejected(str(refused)) for _ in request.records]
        place = f"objects[{begin + at_fault}]"
        others = PublishError(f"nothing was written: {place} was refused: {refused}", indeterminate=False)
        this = PublishRejected(f"{place}: {refused}")
        return [this if i == at_fault else others for i in range(len(request.records))]
    except PublishError as error:
        return [error for _ in request.records]
    except (LookupError, TypeError) as error:
        words = f"its answer is no list of results: {error}"
        return [PublishError(words, indeterminate=True) for _ in request.records]
    except ValueError as error:
        return [PublishRejected(str(error)) for _ in request.records]


def _outcome(result: Mapping[str, Any], outgoing: Outgoing) -> Published | PublishError:
    """Raises LookupError, TypeError if it is not a valid answer."""
    if "error" in result:
        unknown = str(result.get("outcome")).startswith("unknown")
        return PublishError(f"{outgoing.name}: {result['error']}", indeterminate=unknown)
    return Published(result["version"], result["partition"], result["offset"])
