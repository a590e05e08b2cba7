/* Secrets are found by what divides names and values: in JSON a string with ':' behind it is a name, in text each '=' and ':' is looked at, first what
 * stands before it and then what follows. Text inside of a JSON string is read as it stands there, with its escapes, so that what is cut out
 * leaves JSON behind: `\"` is a quote with a backslash before it, as in text that holds JSON, and `\n` ends a value like a new line. */
#include "base/redact.h"
#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include <pthread.h>
#include <string.h>

#define NAME_FAR 256   /* so far back from its ':' a name begins */
#define QUOTES_DEEP 15 /* backslashes before a quote: JSON in JSON in JSON in JSON */

static const char usual_words[] =
    "password, passwd, passphrase, passcode, pwd, secret, token, authorization, apikey, accesskey, privatekey, signingkey, "
    "encryptionkey, cookie, credential, sessionid, jwt, csrf, -max_tokens, -token_count";

/* ---- names ------------------------------------------------------------------------------------------------------------------- */

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static char small(char c) { return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c; }
static bool is_letter(char c) { return small(c) >= 'a' && small(c) <= 'z'; }
static int bit_of(char c) { return is_digit(c) ? c - '0' : 10 + c - 'a'; }

static int hex_of(char c) { return is_digit(c) ? c - '0' : small(c) >= 'a' && small(c) <= 'f' ? small(c) - 'a' + 10 : -1; }

/* The letter or digit at *at, small; 0: it is neither. Moves on. */
static char next_letter(const char **at, const char *end)
{
    const char *p = *at;
    int code = 0;
    *at = p + 1;
    if (*p != '\\') return is_digit(*p) || is_letter(*p) ? small(*p) : 0;
    if (end - p < 6 || p[1] != 'u') return 0;
    for (int i = 2; i < 6; i++) {
        if (hex_of(p[i]) < 0) return 0;
        code = code * 16 + hex_of(p[i]);
    }
    *at = p + 6;
    char c = code < 128 ? (char)code : 0;
    return is_digit(c) || is_letter(c) ? small(c) : 0;
}

/* Whether one of the words begins at `at`. */
static void look_at(const redaction *r, const char *at, size_t left, bool *secret, bool *shown)
{
    if (!(r->first >> bit_of(*at) & 1)) return;
    for (int i = 0; i < r->count; i++) {
        if (r->words[i].len > left || memcmp(at, r->words[i].text, r->words[i].len) != 0) continue;
        if (r->words[i].shown) *shown = true;
        else *secret = true;
    }
}

bool redact_name(const redaction *r, pawl_bytes name)
{
    char plain[NAME_FAR];
    size_t n = 0;
    bool secret = false, shown = false;
    for (const char *at = name.data, *end = at + name.len; at < end;) {
        char c = next_letter(&at, end);
        if (c) plain[n++] = c;
        if (n < sizeof plain && at < end) continue;
        for (size_t i = 0; i < n; i++) look_at(r, plain + i, n - i, &secret, &shown);
        if (n < sizeof plain) break;
        memmove(plain, plain + n - REDACT_WORD_MAX, REDACT_WORD_MAX); /* one may have begun there */
        n = REDACT_WORD_MAX;
    }
    return secret && !shown;
}

static bool add_word(redaction *r, const char *at, size_t n)
{
    bool shown = n > 0 && *at == '-';
    const char *end = at + n;
    size_t len = 0;
    if (r->count == REDACT_WORDS_MAX) return false;
    char *word = r->words[r->count].text;
    while (at < end) {
        char c = next_letter(&at, end);
        if (c && len == REDACT_WORD_MAX) return false;
        if (c) word[len++] = c;
    }
    if (len < 2) return false;
    word[len] = '\0';
    r->words[r->count].len = (unsigned char)len;
    r->words[r->count++].shown = shown;
    r->first |= UINT64_C(1) << bit_of(*word);
    return true;
}

static bool add_words(redaction *r, const char *list, const char **bad, size_t *bad_len)
{
    for (const char *at = list; *at; at += *at == ',') {
        at += strspn(at, " \t");
        size_t n = strcspn(at, ","), len = n;
        while (len && (at[len - 1] == ' ' || at[len - 1] == '\t')) len--;
        if (len == 4 && memcmp(at, "none", 4) == 0) *r = (redaction){0};
        else if (len && !add_word(r, at, len)) return *bad = at, *bad_len = len, false;
        at += n;
    }
    return true;
}

static redaction usual;
static pthread_once_t usual_once = PTHREAD_ONCE_INIT;

static void make_usual(void)
{
    const char *bad;
    size_t n;
    add_words(&usual, usual_words, &bad, &n);
}

const redaction *redaction_usual(void)
{
    pthread_once(&usual_once, make_usual);
    return &usual;
}

pawl_status redaction_read(redaction *r, const char *list, pawl_error *err)
{
    const char *bad;
    size_t n;
    char shown[64];
    *r = *redaction_usual();
    if (!list || add_words(r, list, &bad, &n)) return PAWL_OK;
    text_show(bad, n, shown, sizeof shown);
    if (r->count == REDACT_WORDS_MAX)
        return err_set(err, PAWL_INVALID, "redact has more than %d words with the usual ones: leave some out", REDACT_WORDS_MAX);
    return err_set(err, PAWL_INVALID, "redact: \"%s\" is no word of 2 to %d letters and digits", shown, REDACT_WORD_MAX);
}

/* ---- text -------------------------------------------------------------------------------------------------------------------- */

typedef struct reading {
    const redaction *r;
    const char *begin, *end;
    bool escaped; /* inside of a JSON string */
} reading;

static bool is_blank(char c) { return c == ' ' || c == '\t'; }
static bool is_quote(char c) { return c == '"' || c == '\''; }
static bool in_name(char c) { return is_letter(c) || is_digit(c) || c == '_' || c == '-' || c == '.'; }

static size_t backslashes_before(const char *at, const char *begin)
{
    size_t n = 0;
    while (at - n > begin && at[-(ptrdiff_t)n - 1] == '\\') n++;
    return n;
}

/* "name" before `end`, where its closing quote stands; without the quotes. */
static bool quoted_name(const reading *t, const char *end, pawl_bytes *name)
{
    const char *close = end - 1, *behind = close - backslashes_before(close, t->begin), *far = t->begin;
    if (behind - far > NAME_FAR) far = behind - NAME_FAR;
    for (const char *at = behind; at > far; at--) {
        if (at[-1] != *close) continue;
        *name = (pawl_bytes){at, (size_t)(behind - at)};
        return true;
    }
    return false;
}

/* The name before a '=' or ':'. */
static bool name_before(const reading *t, const char *mark, pawl_bytes *name)
{
    const char *end = mark, *far = t->begin;
    if (mark - far > NAME_FAR) far = mark - NAME_FAR;
    while (end > far && is_blank(end[-1])) end--;
    if (end > far && is_quote(end[-1])) return quoted_name(t, end, name);
    if (end > far && end[-1] == ']') end--; /* user[password]=... */
    const char *at = end;
    while (at > far && in_name(at[-1])) at--;
    *name = (pawl_bytes){at, (size_t)(end - at)};
    return at < end;
}

/* Whether the line ends at `at`. */
static bool ends_line(const reading *t, const char *at)
{
    if (*at == '\n' || *at == '\r') return true;
    return t->escaped && *at == '\\' && t->end - at >= 2 && (at[1] == 'n' || at[1] == 'r');
}

/* An escape that is a blank or a quote, however deep. */
static bool escapes_mark(const reading *t, const char *at)
{
    size_t n = 0;
    while (at + n < t->end && at[n] == '\\') n++;
    if (!n || at + n == t->end) return false;
    return is_quote(at[n]) || (n % 2 && strchr("nrtbf", at[n]));
}

static bool ends_word(const reading *t, const char *at)
{
    if (*at == '\\') return t->escaped && escapes_mark(t, at);
    return is_blank(*at) || ends_line(t, at) || (*at && strchr(",;&\"'<>)}]", *at));
}

/* One character, or an escape as a whole: nothing is cut in two. */
static const char *step(const reading *t, const char *at)
{
    if (!t->escaped || *at != '\\' || t->end - at < 2) return at + 1;
    return at[1] == 'u' && t->end - at >= 6 ? at + 6 : at + 2;
}

static const char *word_end(const reading *t, const char *at)
{
    while (at < t->end && !ends_word(t, at)) at = step(t, at);
    return at;
}

/* The closing quote (where its backslashes begin): the first that has no more of them than the opening one. */
static const char *quote_end(const reading *t, const char *at, char quote, size_t depth)
{
    for (const char *from = at; (at = memchr(at, quote, (size_t)(t->end - at))); at++) {
        size_t n = backslashes_before(at, from);
        if (n <= depth) return at - n;
    }
    return t->end;
}

/* Behind the bracket that closes the one at `at`. */
static const char *bracket_end(const reading *t, const char *at)
{
    int depth = 0;
    for (char quote = '\0'; at < t->end; at = step(t, at)) {
        char c = t->escaped && *at == '\\' && t->end - at >= 2 ? at[1] : *at;
        if (quote) quote = c == quote ? '\0' : quote;
        else if (c == '"') quote = c;
        else if (c == '[' || c == '{') depth++;
        else if ((c == ']' || c == '}') && --depth == 0) return at + 1;
    }
    return t->end;
}

static bool is_word(const char *at, const char *end, const char *const *words)
{
    size_t n = (size_t)(end - at);
    for (; *words; words++) {
        size_t i = 0;
        while (i < n && (*words)[i] && small(at[i]) == (*words)[i]) i++;
        if (i == n && !(*words)[i]) return true;
    }
    return false;
}

static const char *bare_end(const reading *t, const char *at)
{
    static const char *const schemes[] = {"bearer", "basic", "digest", "token", "negotiate", "apikey", NULL};
    static const char *const nothing[] = {"true", "false", "null", "none", NULL};
    const char *end = word_end(t, at);
    if (is_word(at, end, nothing)) return at;
    if (!is_word(at, end, schemes)) return end;
    const char *next = end;
    while (next < t->end && is_blank(*next)) next++;
    return next > end ? word_end(t, next) : end;
}

/* Headers whose values have blanks and marks in them. */
static bool has_long_value(pawl_bytes name)
{
    static const redaction headers = {.words = {{"authorization", 13, false}, {"cookie", 6, false}},
                                      .count = 2,
                                      .first = UINT64_C(1) << 10 | UINT64_C(1) << 12};
    return redact_name(&headers, name);
}

/* To the end of the line, or of the quotes that began before the name: "Cookie: a=b". */
static const char *header_end(const reading *t, const char *at, pawl_bytes name, const char *mark)
{
    bool inside = name.data > t->begin && is_quote(name.data[-1]) && name.data + name.len == mark;
    size_t depth = inside ? backslashes_before(name.data - 1, t->begin) : 0;
    if (depth > QUOTES_DEEP) inside = false;
    for (; at < t->end && !ends_line(t, at); at = step(t, at)) {
        size_t n = 0;
        while (n < depth && at + n < t->end && at[n] == '\\') n++;
        if (inside && at + n < t->end && at[n] == name.data[-1]) break;
    }
    return at;
}

/* The value behind a '=' or ':' whose name is a secret's. */
static pawl_bytes value_behind(const reading *t, const char *mark, pawl_bytes name)
{
    const char *at = mark + 1, *quote;
    if (at < t->end && (*at == '=' || *at == '>')) at++;
    while (at < t->end && is_blank(*at)) at++;
    for (quote = at; quote < t->end && *quote == '\\';) quote++;
    if (quote < t->end && is_quote(*quote)) {
        const char *end = quote_end(t, quote + 1, *quote, (size_t)(quote - at));
        return (pawl_bytes){quote + 1, (size_t)(end - quote - 1)};
    }
    if (at == t->end) return (pawl_bytes){at, 0};
    const char *end = *at == '[' || *at == '{' ? bracket_end(t, at) : bare_end(t, at);
    if (!is_quote(mark[-1]) && has_long_value(name)) end = header_end(t, at, name, mark);
    return (pawl_bytes){at, (size_t)(end - at)};
}

/* Behind the "//" of a URL, whose slashes may be escaped; NULL: it is none. */
static const char *behind_slashes(const reading *t, const char *at)
{
    for (int i = 0; i < 2; i++, at++) {
        if (at < t->end && *at == '\\') at++;
        if (at == t->end || *at != '/') return NULL;
    }
    return at;
}

/* The password of user:password@host. */
static pawl_bytes url_password(const reading *t, const char *at)
{
    const char *colon = NULL, *host = NULL;
    for (; at < t->end && !is_blank(*at) && !ends_line(t, at) && !strchr("/?#\"'<>\\", *at); at++) {
        if (*at == ':' && !colon) colon = at;
        if (*at == '@') host = at;
    }
    if (!colon || !host || host < colon) return (pawl_bytes){at, 0};
    return (pawl_bytes){colon + 1, (size_t)(host - colon - 1)};
}

static const char *next_mark(const char *at, const char *end)
{
    while (at < end && *at != '=' && *at != ':') at++;
    return at < end ? at : NULL;
}

static bool next_in_text(const reading *t, const char **at, pawl_bytes *secret)
{
    for (const char *mark; (mark = next_mark(*at, t->end)); *at = mark + 1) {
        pawl_bytes name;
        const char *url = *mark == ':' ? behind_slashes(t, mark + 1) : NULL;
        if (url) *secret = url_password(t, url);
        else if (name_before(t, mark, &name) && redact_name(t->r, name)) *secret = value_behind(t, mark, name);
        else continue;
        if (!secret->len) continue;
        *at = secret->data + secret->len;
        return true;
    }
    *at = t->end;
    return false;
}

/* ---- JSON -------------------------------------------------------------------------------------------------------------------- */

/* Behind the string that begins at `at`. */
static const char *string_end(const char *at, const char *end)
{
    const char *from = ++at;
    while ((at = memchr(at, '"', (size_t)(end - at))) && backslashes_before(at, from) % 2) at++;
    return at ? at + 1 : end;
}

static const char *skip_space(const char *at, const char *end)
{
    while (at < end && (is_blank(*at) || *at == '\n' || *at == '\r')) at++;
    return at;
}

/* The value at `at`; false: there is nothing to hide in it. */
static bool value_at(redact_walk *w, const char *at, pawl_bytes *secret)
{
    json value = json_parse((pawl_bytes){at, (size_t)(w->end - at)});
    w->at = value.raw.data + value.raw.len;
    *secret = value.raw;
    return value.kind > JSON_BOOL && !(value.kind == JSON_STRING && value.raw.len == 2);
}

static bool next_in_string(redact_walk *w, pawl_bytes *secret)
{
    reading text = {w->r, w->string, w->string_end, true};
    if (next_in_text(&text, &w->at, secret)) return true;
    w->at = w->string_end + 1;
    w->string = NULL;
    return false;
}

static bool next_in_json(redact_walk *w, pawl_bytes *secret, bool *whole)
{
    if (w->string && next_in_string(w, secret)) return true;
    for (const char *quote; w->at < w->end && (quote = memchr(w->at, '"', (size_t)(w->end - w->at)));) {
        const char *behind = string_end(quote, w->end), *colon = skip_space(behind, w->end);
        if (colon < w->end && *colon == ':') {
            w->at = colon + 1;
            if (!redact_name(w->r, (pawl_bytes){quote + 1, (size_t)(behind - quote) - 2})) continue;
            *whole = value_at(w, colon + 1, secret);
            if (*whole) return true;
        } else {
            w->string = w->at = quote + 1;
            w->string_end = behind - 1;
            if (next_in_string(w, secret)) return true;
        }
    }
    return false;
}

/* ---- both -------------------------------------------------------------------------------------------------------------------- */

redact_walk redact_begin(const redaction *r, redact_form form, pawl_bytes text)
{
    const char *begin = text.data ? text.data : "";
    return (redact_walk){.r = r, .form = form, .begin = begin, .at = begin, .end = begin + (r->count ? text.len : 0)};
}

bool redact_next(redact_walk *w, pawl_bytes *secret, bool *whole)
{
    reading text = {w->r, w->begin, w->end, false};
    *whole = false;
    return w->form == REDACT_JSON ? next_in_json(w, secret, whole) : next_in_text(&text, &w->at, secret);
}

/* Copies up to the last of the walk's secrets, masked; *written: how far. */
static bool mask(redact_walk *w, const char **written, buf *out)
{
    pawl_bytes secret;
    bool whole, masked = false;
    for (; redact_next(w, &secret, &whole); masked = true) {
        buf_add(out, *written, (size_t)(secret.data - *written));
        buf_str(out, whole ? "\"" REDACT_MASK "\"" : REDACT_MASK);
        *written = secret.data + secret.len;
    }
    return masked;
}

bool redact(const redaction *r, redact_form form, pawl_bytes text, buf *out)
{
    redact_walk w = redact_begin(r, form, text);
    const char *written = text.data;
    bool masked = mask(&w, &written, out);
    if (masked) buf_add(out, written, (size_t)(text.data + text.len - written));
    return masked;
}

/* The next line, with its end. */
static bool next_line(pawl_bytes data, size_t *at, pawl_bytes *line)
{
    if (*at == data.len) return false;
    const char *from = data.data + *at, *stop = memchr(from, '\n', data.len - *at);
    *line = (pawl_bytes){from, stop ? (size_t)(stop + 1 - from) : data.len - *at};
    *at += line->len;
    return true;
}

static bool is_lines_of_json(pawl_bytes data)
{
    pawl_bytes line;
    for (size_t at = 0; next_line(data, &at, &line);)
        if (!json_valid(line, NULL, NULL) && *skip_space(line.data, line.data + line.len - 1) != '\n') return false;
    return true;
}

bool redact_bytes(const redaction *r, pawl_bytes data, buf *out)
{
    const char *written = data.data;
    bool masked = false;
    pawl_bytes line;
    if (!data.len || !utf8_valid(data.data, data.len)) return false;
    if (json_valid(data, NULL, NULL)) return redact(r, REDACT_JSON, data, out);
    if (!is_lines_of_json(data)) return redact(r, REDACT_TEXT, data, out);
    for (size_t at = 0; next_line(data, &at, &line);) {
        redact_walk w = redact_begin(r, REDACT_JSON, line);
        masked = mask(&w, &written, out) || masked;
    }
    if (masked) buf_add(out, written, (size_t)(data.data + data.len - written));
    return masked;
}

void redact_line(const redaction *r, char *line, size_t size)
{
    size_t len = strlen(line), n = strlen(REDACT_MASK), at = 0;
    for (;;) {
        redact_walk w = redact_begin(r, REDACT_TEXT, (pawl_bytes){line, len});
        pawl_bytes secret;
        bool whole;
        w.at += at;
        if (!redact_next(&w, &secret, &whole)) return;
        size_t from = (size_t)(secret.data - line), behind = from + secret.len, kept = len - behind;
        if (from + n >= size) {
            line[from] = '\0';
            return;
        }
        if (from + n + kept >= size) kept = utf8_cut(line + behind, size - 1 - from - n);
        memmove(line + from + n, line + behind, kept);
        memcpy(line + from, REDACT_MASK, n);
        at = from + n;
        len = at + kept;
        line[len] = '\0';
    }
}
