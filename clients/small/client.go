// A small client of ColdNotify, in one file, of Go's standard library: what a device needs of it by HTTP.
//
//	client [OPTIONS] COMMAND ...
//	  register NAME...       wants the newest versions of objects
//	  query TEXT             wants those of objects that fit
//	  channel NAME [SINCE]   wants all messages of a channel: since now, oldest, newest, an offset, or a time
//	  sync                   prints what is new, a line of JSON each; then the cursor moves
//	  publish NAME JSON      publishes a version of an object
//	  describe NAME JSON     changes an object's description by a merge patch
//	Options: --addresses HOST:PORT,...  --domain D  --group G  --client C  --state FILE
//	  --wait S   how long a sync waits for something new, 0 to 60 (0)
//	  --for S    how long it tries, at all addresses, before it gives up (60)
//	  --bytes N  how many bytes of notifications an answer has at most (8192)
//
// COLDNOTIFY_TOKEN in the environment is sent as a bearer token. https://HOST:PORT is an address, too.
//
// The first three change the state file alone; the next sync tells the service. Exit codes: 0 done, 1 failed for now, 2
// wrong use or refused for good. docs/small-clients.md says more. go build client.go
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"math/rand"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

// --- base: the state file, one exchange, the command line

const (
	silence        = 30 * time.Second // how long a service may say nothing, beyond what it was asked to wait
	answerBytesMax = 64 << 20
)

var (
	addresses = flag.String("addresses", "", "HOST:PORT,... of the HTTP service")
	domain    = flag.String("domain", "", "the domain")
	group     = flag.String("group", "", "the group")
	client    = flag.String("client", "", "the client")
	state     = flag.String("state", "", "the state file")
	waitS     = flag.Int("wait", 0, "how long a sync waits for something new, in s")
	forS      = flag.Int("for", 60, "how long it tries before it gives up, in s")
	bytesMax  = flag.Int("bytes", 8192, "how many bytes of notifications an answer has at most")
)

// refused is an error after which somebody must change something first. After others it may be done later.
type refused struct{ error }

// answer is what the service says; which of the fields depends on the request.
type answer struct {
	Error         string
	Notifications []json.RawMessage
	Cursor        *string
	More          bool
	Refused       map[string]string
	fields        map[string]json.RawMessage
	whole         []byte
}

// load returns the state's lines: `cursor TEXT`, `object NAME`, `query TEXT`, `channel SINCE NAME`, `refused LINE`.
func load() ([]string, error) {
	data, err := os.ReadFile(*state)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return strings.Split(strings.TrimSuffix(string(data), "\n"), "\n"), err
}

// save writes the state whole and puts it in the place of the one before: after a crash one of the two is there.
func save(lines []string) error {
	file, err := os.Create(*state + ".new")
	if err != nil {
		return err
	}
	_, err = file.WriteString(strings.Join(lines, "\n") + "\n")
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	return os.Rename(*state+".new", *state)
}

// nameIn splits a line into its kind, since when, and the name or text that it is about.
func nameIn(line string) (kind, since, name string) {
	kind, name, _ = strings.Cut(line, " ")
	if kind == "channel" {
		since, name, _ = strings.Cut(name, " ")
	}
	return kind, since, name
}

// request returns the body of a sync.
func request(lines []string, wait int) []byte {
	objects, queries, channels, cursor := []string{}, []string{}, map[string]string{}, ""
	for _, line := range lines {
		switch kind, since, name := nameIn(line); kind {
		case "cursor":
			cursor = name
		case "object":
			objects = append(objects, name)
		case "query":
			queries = append(queries, name)
		case "channel":
			channels[name] = since
		}
	}
	body, _ := json.Marshal(map[string]any{"domain": *domain, "group": *group, "client": *client, "cursor": cursor,
		"registrations": objects, "queries": queries, "channels": channels, "wait_s": wait, "bytes_max": *bytesMax})
	return body
}

// after returns the state's lines as an answer leaves them: with its cursor, and without what it refused.
func after(lines []string, said answer) []string {
	kept := []string{"cursor "}
	if said.Cursor != nil {
		kept[0] += *said.Cursor
	}
	for _, line := range lines {
		kind, _, name := nameIn(line)
		if _, is := said.Refused[name]; is && kind != "refused" && kind != "cursor" {
			line = "refused " + line
		}
		if kind != "cursor" {
			kept = append(kept, line)
		}
	}
	return kept
}

func pathOf(name string) string {
	return "/v1/domains/" + *domain + "/groups/" + *group + "/objects/" + strings.ReplaceAll(url.PathEscape(name), ".", "%2E")
}

// exchange returns status, Retry-After and the JSON of one answer; an error, if there is none that is whole.
func exchange(address, method, path string, body []byte, limit time.Duration) (int, time.Duration, answer, error) {
	var said answer
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	silent := time.AfterFunc(limit, cancel)
	request, err := http.NewRequestWithContext(ctx, method, address+path, bytes.NewReader(body))
	if err != nil {
		return 0, 0, said, err
	}
	request.Header = http.Header{"Content-Type": {"application/json"}, "Connection": {"close"}}
	if token := os.Getenv("COLDNOTIFY_TOKEN"); token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		return 0, 0, said, err
	}
	defer response.Body.Close()
	for part, size := make([]byte, 65536), 0; err == nil && len(said.whole) < answerBytesMax; silent.Reset(limit) {
		size, err = response.Body.Read(part)
		said.whole = append(said.whole, part[:size]...)
	}
	after, _ := strconv.Atoi(response.Header.Get("Retry-After"))
	if errors.Is(err, io.EOF) {
		if err = json.Unmarshal(said.whole, &said.fields); err == nil {
			err = json.Unmarshal(said.whole, &said)
		}
	}
	return response.StatusCode, time.Duration(after) * time.Second, said, err
}

func do(words []string) error {
	for name, said := range map[string]string{"addresses": *addresses, "domain": *domain, "group": *group, "client": *client, "state": *state} {
		if said == "" {
			return refused{fmt.Errorf("--%s is not said", name)}
		}
	}
	many := len(words) - 1
	switch {
	case many > 0 && words[0] == "register":
		return want("object ", words[1:]...)
	case many == 1 && words[0] == "query":
		return want("query ", words[1])
	case many == 1 && words[0] == "channel":
		return want("channel now ", words[1])
	case many == 2 && words[0] == "channel":
		return want("channel "+words[2]+" ", words[1])
	case many == 0 && words[0] == "sync":
		return sync()
	case many == 2 && words[0] == "publish":
		return tell("POST", pathOf(words[1]), `{"payload":`+words[2]+"}", "offset")
	case many == 2 && words[0] == "describe":
		return tell("PATCH", pathOf(words[1])+"/description", words[2], "revision")
	}
	return refused{fmt.Errorf("wrong use: no such command, or other words; the first lines of client.go have them")}
}

func main() {
	flag.Parse() // ends with 2 by itself
	err := do(flag.Args())
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, err)
	if errors.As(err, new(refused)) {
		os.Exit(2)
	}
	os.Exit(1)
}

// --- failover: another address, or another time

// ask returns the first answer that has the key. Who cannot be reached, cannot answer now or answers nonsense leaves the
// next address to be asked at once. After all of them, and where the service itself says that it is too early (409,
// 429), there is a pause: Retry-After, or a random one below a bound that doubles from 1 s to 300 s.
func ask(method, path string, body []byte, key string, wait time.Duration) (answer, error) {
	all := strings.FieldsFunc(*addresses, func(r rune) bool { return r == ',' })
	end := time.Now().Add(time.Duration(*forS)*time.Second + wait)
	bound, least := time.Second, time.Duration(0)
	for asked := 1; ; asked++ {
		address := all[(asked-1)%len(all)]
		status, after, said, err := exchange(address, method, path, body, silence+wait)
		if _, has := said.fields[key]; status == 200 && has && err == nil {
			return said, nil
		}
		problem := fmt.Errorf("%s: %d %s", address, status, said.Error)
		if said.Error == "" {
			problem = fmt.Errorf("%s: %d, no whole answer with %s: %v", address, status, key, err)
		}
		early := status == 409 || status == 429
		if status >= 400 && status < 500 && status != 408 && !early {
			return said, refused{problem}
		}
		least = max(least, after)
		if asked%len(all) != 0 && !early {
			continue
		}
		pause := max(least, time.Duration(rand.Int63n(int64(bound))+1))
		if time.Now().Add(pause).After(end) {
			return said, fmt.Errorf("%w; come back in %d s", problem, pause/time.Second+1)
		}
		time.Sleep(pause)
		bound, least = min(2*bound, 300*time.Second), 0
	}
}

// --- subscriber

// want adds lines to the wanted set.
func want(kind string, names ...string) error {
	lines, err := load()
	if err != nil {
		return err
	}
	there := map[string]bool{}
	for _, line := range lines {
		there[line] = true
	}
	for _, name := range names {
		if name == "" || strings.ContainsFunc(kind+name, func(r rune) bool { return r < ' ' }) {
			return refused{fmt.Errorf("a name is empty, or has a control character: %q", name)}
		}
		if !there[kind+name] {
			lines, there[kind+name] = append(lines, kind+name), true
		}
	}
	return save(lines)
}

// sync prints what is new. The cursor moves when that is written; so until there is no more.
func sync() error {
	for wait, more := *waitS, true; more; wait = 0 {
		lines, err := load()
		if err != nil {
			return err
		}
		said, err := ask("POST", "/v1/sync", request(lines, wait), "cursor", time.Duration(wait)*time.Second)
		if err != nil {
			return err
		}
		var told bytes.Buffer
		for _, one := range said.Notifications {
			json.Compact(&told, one) // ask has found no error in it
			told.WriteByte('\n')
		}
		if len(said.Refused) > 0 {
			fmt.Fprintf(&told, "{\"refused\":%s}\n", said.fields["refused"])
		}
		if _, err = os.Stdout.Write(told.Bytes()); err != nil {
			return err
		}
		os.Stdout.Sync() // it may be a file
		if err = save(after(lines, said)); err != nil {
			return err
		}
		more = said.More
	}
	return nil
}

// --- publisher

// tell sends a version, or a patch of a description, and prints what became of it.
func tell(method, path, body, key string) error {
	if !json.Valid([]byte(body)) {
		return refused{fmt.Errorf("no JSON: %s", body)}
	}
	said, err := ask(method, path, []byte(body), key, 0)
	if err != nil {
		return err
	}
	var line bytes.Buffer
	json.Compact(&line, said.whole) // ask has found no error in it
	_, err = fmt.Println(line.String())
	return err
}
