#!/bin/sh
# A small client of ColdNotify, in one file: what a device needs of it by HTTP. It needs POSIX sh and awk, and curl.
#
# client.sh [OPTIONS] COMMAND ...
#   register NAME...       wants the newest versions of objects
#   query TEXT             wants those of objects that fit
#   channel NAME [SINCE]   wants all messages of a channel: since now, oldest, newest, an offset, or a time
#   sync                   prints what is new, a line of JSON each; then the cursor moves
#   publish NAME JSON      publishes a version of an object
#   describe NAME JSON     changes an object's description by a merge patch
# Options: --addresses HOST:PORT,...  --domain D  --group G  --client C  --state FILE
#   --wait S   how long a sync waits for something new, 0 to 60 (0)
#   --for S    how long it tries, at all addresses, before it gives up (60)
#   --bytes N  how many bytes of notifications an answer has at most (8192)
# COLDNOTIFY_TOKEN in the environment is sent as a bearer token. https://HOST:PORT is an address, too.
#
# The first three change the state file alone; the next sync tells the service. Exit codes: 0 done, 1 failed for now, 2
# wrong use or refused for good. docs/small-clients.md says more.
set -fu
export LC_ALL=C

# --- base: the state file, JSON, the command line

addresses='' domain='' group='' client='' state='' wait=0 for=60 bytes=8192
newline='
'

refuse() { # WORDS: somebody must change something first
    printf '%s\n' "$*" >&2
    exit 2
}

usage() { # WORDS
    refuse "wrong use: $*$newline$(sed -n '2,/^set/s/^# \{0,1\}//p' "$0")"
}

lines_of() { # KIND: what the state has of it
    sed -n "s/^$1 //p" "$state"
}

save() { # puts $state.new, which is whole, in the place of the state: after a crash one of the two is there
    { sync "$state.new" 2>/dev/null || sync; } && mv -f "$state.new" "$state"
}

texts() { # stdin's lines, as the texts of a JSON list
    sed 's/[\\"]/\\&/g; s/.*/"&"/' | paste -sd, -
}

path_of() { # NAME: an object's path
    printf '/v1/domains/%s/groups/%s/objects/' "$domain" "$group"
    printf %s "$1" | od -An -v -tx1 | tr -d '\n' | sed 's/ /%/g'
}

# What an answer says, a line each, once its last brace is there: "key NAME"; "told JSON" for each notification, and for
# what is refused; "name NAME" for each of that; "cursor TEXT"; "more".
answered='
{ gsub(/\r/, " "); text = text $0 " " }
END {
    for (i = 1; i <= length(text); i++) {
        c = substr(text, i, 1)
        if (quoted && c == "\\") i++
        else if (quoted && c == "\"") {
            quoted = 0
            said = substr(text, begun + 1, i - begun - 1)
            if (depth == 1 && !valued) { key = said; out = out "key " key "\n" }
            else if (depth == 1 && key == "cursor") out = out "cursor " said "\n"
            else if (depth == 2 && key == "refused" && names++ % 2 == 0) out = out "name " said "\n"
        }
        else if (quoted) continue
        else if (c == "\"") { quoted = 1; begun = i }
        else if (c == "{" || c == "[") {
            depth++
            if (depth == (key == "notifications" ? 3 : 2)) start = i
        }
        else if (c == "}" || c == "]") {
            value = substr(text, start, i - start + 1)
            if (depth == 3 && key == "notifications") out = out "told " value "\n"
            if (depth == 2 && key == "refused" && names) out = out "told {\"refused\":" value "}\n"
            whole = !--depth
        }
        else if (depth == 1 && c == ",") valued = 0
        else if (depth == 1 && c == ":") valued = 1
        else if (depth == 1 && c == "t" && key == "more") out = out "more\n"
    }
    if (whole && text ~ /^ *\{/) printf "%s", out
}'

authorization() { # for curl's stdin, so that no list of processes shows it
    [ -z "${COLDNOTIFY_TOKEN-}" ] || printf 'header = "Authorization: Bearer %s"\n' "$COLDNOTIFY_TOKEN"
}

exchange() { # ADDRESS METHOD PATH SILENCE_S: sets status (0: no whole answer), after_s, met_s
    : >"$state.head" >"$state.body"
    met=$(authorization | curl -K - -sS -X "$2" --path-as-is -H 'Content-Type: application/json' \
        --data-binary @"$state.request" -D "$state.head" -o "$state.body" -w '%{time_total} %{http_code}' \
        --connect-timeout "$4" --speed-limit 1 --speed-time "$4" "$1$3" 2>"$state.problem") &&
        status=${met#* } || status=0
    met_s=${met%%.*}
    after_s=$(sed -n 's/^[Rr]etry-[Aa]fter: *\([0-9]*\).*/\1/p' "$state.head" | tail -n 1)
    awk "$answered" "$state.body" >"$state.said"
}

# --- failover: another address, or another time

# Leaves the first answer that has KEY in $state.body, and what it says in $state.said. Who cannot be reached, cannot
# answer now or answers nonsense leaves the next address to be asked at once. After all of them, and where the service
# itself says that it is too early (409, 429), there is a pause: Retry-After, or a random one below a bound that doubles
# from 1 s to 300 s.
ask() { # METHOD PATH KEY WAIT_S, with the body in $state.request
    left_s=$((for + $4)) bound_s=1 least_s=0
    while :; do
        last=${addresses##*,}
        for address in $(printf %s "$addresses" | tr , ' '); do
            exchange "$address" "$1" "$2" $((30 + $4))
            if [ "$status" = 200 ] && grep -qx "key $3" "$state.said"; then return; fi
            problem="$address: $status $(cat "$state.problem" "$state.body" | head -c 300)"
            left_s=$((left_s - ${met_s:-0}))
            [ "${after_s:-0}" -le "$least_s" ] || least_s=$after_s
            case $status in
                409 | 429) ;;
                408 | [!4]*) [ "$address" = "$last" ] || continue ;;
                *) refuse "$problem" ;;
            esac
            random=$(($(od -An -N2 -tu2 /dev/urandom) % bound_s + 1))
            pause_s=$((random > least_s ? random : least_s))
            if [ "$pause_s" -gt "$left_s" ]; then
                printf '%s; come back in %d s\n' "$problem" $((pause_s + 1)) >&2
                exit 1
            fi
            sleep "$pause_s"
            left_s=$((left_s - pause_s)) least_s=0 bound_s=$((bound_s < 150 ? bound_s * 2 : 300))
        done
    done
}

# --- subscriber

want() { # LINE...: adds them to the wanted set
    for line; do
        case ${line#* } in '' | *[[:cntrl:]]*) refuse "a name is empty, or has a control character: $line" ;; esac
    done
    printf '%s\n' "$@" | awk '!there[$0]++' "$state" - >"$state.new" && save || exit 1
}

sync_all() { # prints what is new; the cursor moves when that is written; so until there is no more
    wait_s=$wait
    while :; do
        {
            printf '{"domain":"%s","group":"%s","client":"%s",' "$domain" "$group" "$client"
            printf '"registrations":[%s],' "$(lines_of object | texts)"
            printf '"queries":[%s],' "$(lines_of query | texts)"
            printf '"channels":{%s},' "$(lines_of channel | texts | sed 's/"\([^ "]*\) \([^"]*\)"/"\2":"\1"/g')"
            printf '"cursor":"%s","wait_s":%s,"bytes_max":%s}' "$(lines_of cursor)" "$wait_s" "$bytes"
        } >"$state.request"
        ask POST /v1/sync cursor "$wait_s"
        sed -n 's/^told //p' "$state.said" || exit 1
        awk "$remembered" "$state.said" "$state" >"$state.new" && save || exit 1
        grep -qx more "$state.said" || return 0
        wait_s=0
    done
}

# The state as the answer leaves it: "refused" stands before a line whose name or text, as JSON says it, was refused.
remembered='
FNR == NR && /^cursor / { print; next }
FNR == NR { if (sub(/^name /, "")) refused[$0]; next }
/^cursor / { next }
{
    name = $0
    if (sub(/^(object|query|channel [^ ]*) /, "", name)) {
        gsub(/[\\"]/, "\\\\&", name)
        if (name in refused) $0 = "refused " $0
    }
    print
}'

# --- publisher

tell() { # METHOD PATH KEY BODY
    printf %s "$4" >"$state.request"
    ask "$1" "$2" "$3" 0
    tr '\r\n' '  ' <"$state.body"
    echo
}

# --- base: commands

while [ $# -gt 1 ]; do
    case $1 in
        --addresses | --domain | --group | --client | --state | --wait | --for | --bytes) eval "${1#--}=\$2" ;;
        *) break ;;
    esac
    shift 2
done
for option in addresses domain group client state; do
    eval "[ -n \"\$$option\" ]" || usage "--$option is not said"
done
{ [ -e "$state" ] || : >"$state"; } && [ -r "$state" ] || refuse "--state: $state cannot be read or made"
case "$wait$for$bytes" in *[!0-9]*) usage '--wait, --for and --bytes are whole numbers' ;; esac
trap 'rm -f "$state.head" "$state.body" "$state.said" "$state.request" "$state.problem"' EXIT
case ${1-}:$# in
    register:1) usage 'register NAME...' ;;
    register:*)
        shift
        for name; do set -- "$@" "object $name" && shift; done
        want "$@"
        ;;
    query:2) want "query $2" ;;
    channel:2 | channel:3) want "channel ${3-now} $2" ;;
    sync:1) sync_all ;;
    publish:3) tell POST "$(path_of "$2")" offset "{\"payload\":$3}" ;;
    describe:3) tell PATCH "$(path_of "$2")/description" revision "$3" ;;
    *) usage "no such command, or not so many words: $*" ;;
esac
