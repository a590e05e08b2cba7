#include "store/search.h"

#include <string.h>

static char lower(char c) { return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c; }

void search_begin(search *s, const char *text)
{
    *s = (search){0};
    size_t n = text ? strnlen(text, SEARCH_BYTES) : 0;
    for (size_t i = 0; i < n; i++) s->text[i] = lower(text[i]);
    for (char *at = s->text; *at;) {
        size_t spaces = strspn(at, " ");
        char *word = at + spaces;
        size_t len = s->count == SEARCH_WORDS - 1 ? strlen(word) : strcspn(word, " ");
        if (len == 0) return;
        s->words[s->count].text = word;
        s->words[s->count++].len = len;
        at = word + len + (word[len] != '\0');
        word[len] = '\0';
    }
}

static bool holds(pawl_bytes in, const char *word, size_t len)
{
    const char *data = in.data;
    for (size_t i = 0; i + len <= in.len; i++) {
        size_t same = 0;
        while (same < len && lower(data[i + same]) == word[same]) same++;
        if (same == len) return true;
    }
    return false;
}

void search_look(search *s, pawl_bytes in)
{
    for (int i = 0; i < s->count; i++)
        if (!(s->found >> i & 1) && holds(in, s->words[i].text, s->words[i].len)) s->found |= 1U << i;
}

void search_look_text(search *s, const char *in)
{
    if (in) search_look(s, (pawl_bytes){in, strlen(in)});
}
