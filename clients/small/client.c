/* A small client of ColdNotify, in one file: what a device needs of it by HTTP. POSIX sockets, no heap, no TLS.
 *
 * client [OPTIONS] COMMAND ...
 *   register NAME...       wants the newest versions of objects
 *   query TEXT             wants those of objects that fit
 *   channel NAME [SINCE]   wants all messages of a channel: since now, oldest, newest, an offset, or a time
 *   sync                   prints what is new, a line of JSON each; then the cursor moves
 *   publish NAME JSON      publishes a version of an object
 *   describe NAME JSON     changes an object's description by a merge patch
 * Options: --addresses HOST:PORT,...  --domain D  --group G  --client C  --state FILE
 *   --wait S   how long a sync waits for something new, 0 to 60 (0)
 *   --for S    how long it tries, at all addresses, before it gives up (60)
 *   --bytes N  how many bytes of notifications an answer has at most (8192)
 * COLDNOTIFY_TOKEN in the environment is sent as a bearer token: inside a VPN, or to a proxy on the device.
 *
 * The first three change the state file alone; the next sync tells the service. Exit codes: 0 done, 1 failed for now, 2
 * wrong use or refused for good. docs/small-clients.md says more. cc -std=c99 -o client client.c
 */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/* --- base: the buffer, the state file, one exchange */

enum { SILENCE_S = 30 };
static char answer[12032], line[4352]; /* 16 KiB: what is sent or came, and a line of the state */
static char path[1400], beside[1024];  /* of a request; of the new state */

static const char *addresses = "", *domain = "", *group = "", *client = "", *state = "";
static const char *wait_s = "0", *for_s = "60", *bytes = "8192";

struct reply { /* what an answer says, and where in `answer` */
    int status, after_s, whole, found, more;
    size_t used, cursor_at, cursor_bytes, refused_at, refused_bytes;
};

static void end(int code, const char *words, const char *more)
{
    fprintf(stderr, "%s%s\n", words, more);
    exit(code);
}

static void write_all(int fd, const char *data, size_t size)
{
    while (size) {
        ssize_t written = write(fd, data, size);
        if (written < 0 && errno != EINTR) end(1, "cannot write: ", strerror(errno));
        if (written > 0) data += written, size -= (size_t)written;
    }
}

static void write_text(int fd, const char *text) { write_all(fd, text, strlen(text)); }

/* Reads the state's next line into `line`, and returns it; NULL behind the last one. The file need not be there. */
static char *next_line(int fd, off_t *at)
{
    ssize_t size = fd < 0 ? 0 : pread(fd, line, sizeof line, *at);
    char *stop = size > 0 ? memchr(line, '\n', (size_t)size) : NULL;
    if (size < 0 || (!stop && size)) end(2, "--state: has a line that cannot be read: ", state);
    if (!stop) return NULL;
    *stop = 0;
    *at += stop - line + 1;
    return line;
}

static int open_state(void)
{
    int fd = open(state, O_RDONLY);
    if (fd < 0 && errno != ENOENT) end(2, "--state: ", strerror(errno));
    return fd;
}

/* Returns the name or text of a line of the wanted set; NULL for another line. */
static char *name_in(char *said)
{
    if (!strncmp(said, "object ", 7)) return said + 7;
    if (!strncmp(said, "query ", 6)) return said + 6;
    char *name = strncmp(said, "channel ", 8) ? NULL : strchr(said + 8, ' ');
    return name ? name + 1 : NULL;
}

/* What is put is counted (`to` below 0), or sent, by way of `answer`. */
static int to, broken;
static size_t put_bytes, filled;

static void flush_put(void)
{
    for (size_t sent = 0; sent < filled && !broken;) {
        ssize_t part = send(to, answer + sent, filled - sent, MSG_NOSIGNAL);
        if (part < 0) broken = 1;
        else sent += (size_t)part;
    }
    filled = 0;
}

static void put_char(char c)
{
    put_bytes++;
    if (to < 0) return;
    if (filled == sizeof answer) flush_put();
    answer[filled++] = c;
}

static void put(const char *text) { while (*text) put_char(*text++); }

static void put_text(const char *text) /* as JSON */
{
    put_char('"');
    for (; *text; text++) {
        if (*text == '"' || *text == '\\') put_char('\\');
        put_char(*text);
    }
    put_char('"');
}

static void put_path(const char *name)
{
    int used = snprintf(path, sizeof path, "/v1/domains/%s/groups/%s/objects/", domain, group);
    for (; *name && used > 0 && used + 20 < (int)sizeof path; name++)
        used += sprintf(path + used, "%%%02X", (unsigned char)*name);
    if (*name || used < 0) end(2, "a name is too long", "");
}

static int connected(const char *address, size_t size, int silence_s)
{
    char host[300], *port;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    struct timeval limit = {.tv_sec = silence_s};
    snprintf(host, sizeof host, "%.*s", (int)size, address);
    if (!(port = strrchr(host, ':'))) end(2, "--addresses: no port: ", host);
    *port++ = 0;
    char *name = host[0] == '[' ? host + 1 : host;
    name[strcspn(name, "]")] = 0;
    if (getaddrinfo(name, port, &hints, &found)) return -1;
    int fd = socket(found->ai_family, found->ai_socktype, 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    if (fd >= 0 && connect(fd, found->ai_addr, found->ai_addrlen)) close(fd), fd = -1;
    freeaddrinfo(found);
    return fd;
}

/* Takes the body's next character, which is the last one of `answer`. An item of notifications is printed once it is
 * whole, and forgotten. */
static struct { int depth, quoted, escaped, valued, told, at_key; size_t begun; char key[16]; } at;

static void take(struct reply *said, const char *key)
{
    char c = answer[said->used - 1];
    size_t here = said->used - 1;
    if (at.quoted) {
        if (at.escaped) at.escaped = 0;
        else if (c == '\\') at.escaped = 1;
        else if (c == '"') {
            at.quoted = 0;
            if (at.depth == 1 && !at.valued) {
                snprintf(at.key, sizeof at.key, "%.*s", (int)(here - at.begun - 1), answer + at.begun + 1);
                at.told = said->status == 200 && !strcmp(at.key, "notifications");
                said->found |= !strcmp(at.key, key);
            } else if (at.depth == 1 && !strcmp(at.key, "cursor"))
                said->cursor_at = at.begun + 1, said->cursor_bytes = here - at.begun - 1;
        }
    } else if (c == '"') {
        at.quoted = 1;
        if (at.depth == 1) at.begun = here;
    } else if (c == '{' || c == '[') {
        if (++at.depth == (at.told ? 3 : 2)) at.begun = here;
    } else if (c == '}' || c == ']') {
        if (at.depth == 3 && at.told) {
            write_all(1, answer + at.begun, here + 1 - at.begun);
            write_text(1, "\n");
        }
        if (at.depth == 2 && !strcmp(at.key, "refused")) said->refused_at = at.begun, said->refused_bytes = here + 1 - at.begun;
        said->whole = --at.depth == 0 && c == '}';
    } else if (at.depth == 1) {
        if (c == ',') at.valued = at.told = 0;
        if (c == ':') at.valued = 1;
        said->more |= c == 't' && !strcmp(at.key, "more");
    }
    if (at.told && at.depth == 2 && !at.quoted) said->used = here; /* the item, and what is between two */
}

/* Takes the head, which `answer` holds with its empty line. */
static void take_head(struct reply *said)
{
    answer[said->used] = 0;
    said->status = strncmp(answer, "HTTP/1.", 7) ? -1 : atoi(answer + 9);
    for (char *field = answer; (field = strstr(field, "\r\n")); field += 2)
        if (!strncasecmp(field + 2, "retry-after:", 12)) said->after_s = atoi(field + 14);
    said->used = 0;
    memset(&at, 0, sizeof at);
}

/* One request at one address, of HTTP/1.0: the answer ends with the connection, and has no chunks. */
static struct reply exchange(const char *address, size_t size, const char *method, void (*body)(void), const char *key,
                             int silence_s)
{
    struct reply said = {0};
    char length[32];
    const char *token = getenv("COLDNOTIFY_TOKEN");
    int fd = connected(address, size, silence_s);
    ssize_t got = fd < 0 ? -1 : 1;
    if (fd < 0) return said;
    to = -1, put_bytes = 0, body();
    snprintf(length, sizeof length, "%zu", put_bytes);
    to = fd, broken = 0, filled = 0;
    put(method), put(" "), put(path), put(" HTTP/1.0\r\nHost: ");
    for (size_t i = 0; i < size; i++) put_char(address[i]);
    if (token) put("\r\nAuthorization: Bearer "), put(token);
    put("\r\nContent-Type: application/json\r\nContent-Length: "), put(length), put("\r\n\r\n");
    body(), flush_put();
    while (got > 0 && (got = recv(fd, line, sizeof line, 0)) > 0)
        for (ssize_t i = 0; i < got; i++) {
            if (said.used == sizeof answer - 1) said.whole = 0, got = -1; /* too long */
            else if (said.status) {
                answer[said.used++] = line[i] == '\r' || line[i] == '\n' ? ' ' : line[i];
                take(&said, key);
            } else {
                answer[said.used++] = line[i];
                if (said.used > 3 && !memcmp(answer + said.used - 4, "\r\n\r\n", 4)) take_head(&said);
            }
        }
    if (got < 0 || !said.found) said.whole = 0;
    answer[said.used] = 0;
    close(fd);
    return said;
}

/* --- failover: another address, or another time */

static long long now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

/* Returns the first whole answer that has `key`. Who cannot be reached, cannot answer now or answers nonsense leaves
 * the next address to be asked at once. After all of them, and where the service itself says that it is too early (409,
 * 429), there is a pause: Retry-After, or a random one below a bound that doubles from 1 s to 300 s. */
static struct reply ask(const char *method, void (*body)(void), const char *key, int waits_s)
{
    long long end_ms = now_ms() + (atoi(for_s) + waits_s) * 1000LL, bound_ms = 1000, pause_ms = 0;
    for (const char *address = addresses;;) {
        address += strspn(address, ",");
        if (!*address) address = addresses;
        size_t size = strcspn(address, ",");
        struct reply said = exchange(address, size, method, body, key, SILENCE_S + waits_s);
        int last = !address[size + strspn(address + size, ",")];
        int early = said.status == 409 || said.status == 429;
        if (said.status == 200 && said.whole) return said;
        if (said.status / 100 == 4 && !early && said.status != 408) end(2, "refused: ", answer);
        if (pause_ms < said.after_s * 1000LL) pause_ms = said.after_s * 1000LL;
        address += size;
        if (!last && !early) continue;
        long long random_ms = rand() % bound_ms + 1;
        if (pause_ms < random_ms) pause_ms = random_ms;
        if (now_ms() + pause_ms > end_ms) {
            fprintf(stderr, "%.*s: %d %s; come back in %lld s\n", (int)size, address - size, said.status,
                    said.used ? answer : "no whole answer", pause_ms / 1000 + 1);
            exit(1);
        }
        struct timespec pause = {pause_ms / 1000, pause_ms % 1000 * 1000000};
        nanosleep(&pause, NULL);
        bound_ms = bound_ms < 150000 ? bound_ms * 2 : 300000, pause_ms = 0;
    }
}

/* --- subscriber */

static int is_refused(const struct reply *said, const char *name)
{
    const char *json = answer + said->refused_at, *last = json + said->refused_bytes;
    for (int number = 0; json < last; json++) {
        if (*json != '"') continue;
        const char *one = json + 1, *rest = name; /* does the text at `json` say `name`? */
        while (*rest && *one == ((*rest == '"' || *rest == '\\') ? '\\' : *rest)) {
            if (*one == '\\' && *++one != *rest) break;
            one++, rest++;
        }
        if (!*rest && *one == '"' && number % 2 == 0) return 1;
        for (json++; json < last && *json != '"'; json++) json += *json == '\\';
        number++;
    }
    return 0;
}

static int is_there(const char *kind, const char *name)
{
    off_t at_line = 0;
    int fd = open_state(), there = 0;
    size_t size = strlen(kind);
    for (char *one; !there && (one = next_line(fd, &at_line));) there = !strncmp(one, kind, size) && !strcmp(one + size, name);
    if (fd >= 0) close(fd);
    return there;
}

/* Puts a whole file in the place of the state: after a crash one of the two is there. With `said`, its cursor and what
 * it refused; and behind the lines that are there, `count` names of a kind. */
static void save(const struct reply *said, const char *kind, char **names, int count)
{
    off_t at_line = 0;
    int old = open_state(), fd;
    snprintf(beside, sizeof beside, "%s.new", state);
    if ((fd = open(beside, O_WRONLY | O_CREAT | O_TRUNC, 0644)) < 0) end(2, "--state: ", strerror(errno));
    if (said) {
        write_text(fd, "cursor ");
        write_all(fd, answer + said->cursor_at, said->cursor_bytes);
        write_text(fd, "\n");
    }
    for (char *one, *name; (one = next_line(old, &at_line));) {
        if (said && !strncmp(one, "cursor ", 7)) continue;
        if (said && (name = name_in(one)) && is_refused(said, name)) write_text(fd, "refused ");
        write_text(fd, one), write_text(fd, "\n");
    }
    for (int i = 0; i < count; i++)
        if (!is_there(kind, names[i])) write_text(fd, kind), write_text(fd, names[i]), write_text(fd, "\n");
    if (old >= 0) close(old);
    if (fsync(fd) || close(fd) || rename(beside, state)) end(1, "--state: ", strerror(errno));
}

static void want(const char *kind, char **names, int count)
{
    for (int i = 0; i < count; i++) {
        int odd = !*names[i] || strlen(kind) + strlen(names[i]) + 1 >= sizeof line;
        for (const char *c = names[i]; *c; c++) odd |= (unsigned char)*c < ' ';
        if (odd) end(2, "a name is empty, too long, or has a control character: ", names[i]);
    }
    save(NULL, kind, names, count);
}

static int waits_s;

static void put_lines(const char *kind) /* of the state, as the items of a JSON list, or object */
{
    off_t at_line = 0;
    int fd = open_state(), more = 0, channels = !strcmp(kind, "channel ");
    size_t size = strlen(kind);
    for (char *one; (one = next_line(fd, &at_line));) {
        if (strncmp(one, kind, size)) continue;
        if (more++) put(",");
        if (channels) {
            char *name = name_in(one);
            if (!name) end(2, "--state: a channel without a name: ", one);
            name[-1] = 0;
            put_text(name), put(":");
        }
        put_text(one + size);
    }
    if (fd >= 0) close(fd);
}

static void put_cursor(void)
{
    off_t at_line = 0;
    int fd = open_state();
    for (char *one; (one = next_line(fd, &at_line));)
        if (!strncmp(one, "cursor ", 7)) put(one + 7);
    if (fd >= 0) close(fd);
}

static void sync_body(void)
{
    char number[16];
    snprintf(number, sizeof number, "%d", waits_s);
    put("{\"domain\":"), put_text(domain), put(",\"group\":"), put_text(group), put(",\"client\":"), put_text(client);
    put(",\"registrations\":["), put_lines("object "), put("],\"queries\":["), put_lines("query ");
    put("],\"channels\":{"), put_lines("channel "), put("},\"cursor\":\""), put_cursor();
    put("\",\"wait_s\":"), put(number), put(",\"bytes_max\":"), put(bytes), put("}");
}

static void sync_all(void) /* prints what is new; the cursor moves when that is written; so until there is no more */
{
    struct reply said = {.more = 1};
    snprintf(path, sizeof path, "/v1/sync");
    for (waits_s = atoi(wait_s); said.more; waits_s = 0) {
        said = ask("POST", sync_body, "cursor", waits_s);
        if (said.refused_bytes > 2) {
            write_text(1, "{\"refused\":");
            write_all(1, answer + said.refused_at, said.refused_bytes);
            write_text(1, "}\n");
        }
        (void)!fsync(1); /* it may be a file */
        save(&said, "", NULL, 0);
    }
}

/* --- publisher */

static const char *text;

static void record_body(void) { put("{\"payload\":"), put(text), put("}"); }

static void patch_body(void) { put(text); }

static void tell(const char *method, const char *name, const char *behind, void (*body)(void), const char *key)
{
    put_path(name);
    strncat(path, behind, sizeof path - strlen(path) - 1);
    struct reply said = ask(method, body, key, 0);
    write_all(1, answer, said.used), write_text(1, "\n");
}

/* --- base: commands */

int main(int words, char **word)
{
    const struct { const char *name, **value; } options[] = {
        {"--addresses", &addresses}, {"--domain", &domain}, {"--group", &group}, {"--client", &client},
        {"--state", &state}, {"--wait", &wait_s}, {"--for", &for_s}, {"--bytes", &bytes}, {0}};
    const char *command = "";
    char kind[80] = "channel now ";
    for (word++, words--; words > 1; word += 2, words -= 2) {
        int i = 0;
        while (options[i].name && strcmp(options[i].name, *word)) i++;
        if (!options[i].name) break;
        *options[i].value = word[1];
    }
    for (int i = 0; options[i].name; i++)
        if (!**options[i].value) end(2, "not said: ", options[i].name);
    for (int i = 5; options[i].name; i++)
        if ((*options[i].value)[strspn(*options[i].value, "0123456789")]) end(2, "no whole number: ", options[i].name);
    if (words) command = *word++, words--;
    srand((unsigned)(time(NULL) ^ getpid()));
    if (!strcmp(command, "register") && words) want("object ", word, words);
    else if (!strcmp(command, "query") && words == 1) want("query ", word, 1);
    else if (!strcmp(command, "channel") && (words == 1 || words == 2)) {
        if (words == 2) snprintf(kind, sizeof kind, "channel %.60s ", word[1]);
        want(kind, word, 1);
    } else if (!strcmp(command, "sync") && !words) sync_all();
    else if (!strcmp(command, "publish") && words == 2) text = word[1], tell("POST", *word, "", record_body, "offset");
    else if (!strcmp(command, "describe") && words == 2) text = word[1], tell("PATCH", *word, "/description", patch_body, "revision");
    else end(2, "wrong use: the first lines of client.c have the commands; this is none, or has other words: ", command);
    return 0;
}
