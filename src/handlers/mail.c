/* A letter as text.
 *
 *     mixed                  if there are files
 *       alternative          if there is both text and HTML
 *         text, HTML         quoted-printable
 *       files                base64
 *
 * Neither encoding ever writes "=_", with which the lines between parts begin: so no content can end its part.
 */
#include "handlers/mail.h"

#include "base/date.h"
#include <string.h>

#define LINE 76
#define BASE64_BYTES 57 /* that make a line */

/* ---- content --------------------------------------------------------------------------------------------------------------- */

static bool ends_line(const char *at) { return *at == '\n' || *at == '\r' || *at == '\0'; }

/* Every kind of line end becomes CR LF; all that is not plain is written as numbers. */
static void quoted_printable(buf *out, const char *text)
{
    size_t column = 0;
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '\n' || c == '\r') {
            if (c == '\r' && text[1] == '\n') text++;
            buf_str(out, "\r\n");
            column = 0;
            continue;
        }
        bool blank = (c == ' ' || c == '\t') && !ends_line(text + 1);
        bool plain = blank || (c > 32 && c < 127 && c != '=');
        if (column + (plain ? 1 : 3) >= LINE) buf_str(out, "=\r\n"), column = 0;
        if (plain) buf_char(out, (char)c);
        else buf_fmt(out, "=%02X", c);
        column += plain ? 1 : 3;
    }
    buf_str(out, "\r\n");
}

static void write_text(buf *out, const char *type, const char *text)
{
    buf_fmt(out, "Content-Type: text/%s; charset=UTF-8\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n", type);
    quoted_printable(out, text);
}

static void write_file(buf *out, const mail_file *file)
{
    const char *data = file->content.data;
    buf_fmt(out, "Content-Type: %s\r\n", file->type);
    mail_word_file(out, file->name);
    buf_str(out, "Content-Transfer-Encoding: base64\r\n\r\n");
    if (!file->content.len) buf_str(out, "\r\n"); /* the line between parts has a line end before it */
    for (size_t at = 0; at < file->content.len; at += BASE64_BYTES) {
        size_t left = file->content.len - at;
        buf_base64(out, data + at, left < BASE64_BYTES ? left : BASE64_BYTES);
        buf_str(out, "\r\n");
    }
}

/* ---- parts ----------------------------------------------------------------------------------------------------------------- */

static void begin_parts(buf *out, const char *kind)
{
    buf_fmt(out, "Content-Type: multipart/%s;\r\n boundary=\"=_%s\"\r\n\r\n", kind, kind);
}
static void begin_part(buf *out, const char *kind) { buf_fmt(out, "--=_%s\r\n", kind); }
static void end_parts(buf *out, const char *kind) { buf_fmt(out, "--=_%s--\r\n", kind); }

static void write_texts(const mail *m, buf *out)
{
    static const char kind[] = "alternative";
    if (!m->html || !m->text) {
        write_text(out, m->html ? "html" : "plain", m->html ? m->html : m->text);
        return;
    }
    begin_parts(out, kind);
    begin_part(out, kind);
    write_text(out, "plain", m->text);
    begin_part(out, kind);
    write_text(out, "html", m->html);
    end_parts(out, kind);
}

static void write_body(const mail *m, buf *out)
{
    static const char kind[] = "mixed";
    if (!m->files_count) {
        write_texts(m, out);
        return;
    }
    begin_parts(out, kind);
    begin_part(out, kind);
    write_texts(m, out);
    for (size_t i = 0; i < m->files_count; i++) {
        begin_part(out, kind);
        write_file(out, &m->files[i]);
    }
    end_parts(out, kind);
}

static void write_date(int64_t at_us, buf *out)
{
    static const char days[] = "SunMonTueWedThuFriSat", months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    int64_t seconds = at_us / PAWL_SECOND, day = seconds / DAY_S, of_day = seconds % DAY_S;
    date d = date_from_days(day);
    buf_fmt(out, "Date: %.3s, %d %.3s %d %02d:%02d:%02d +0000\r\n", days + 3 * date_weekday(day), d.day,
            months + 3 * (d.month - 1), d.year, (int)(of_day / 3600), (int)(of_day / 60 % 60), (int)(of_day % 60));
}

void mail_write(const mail *m, buf *out)
{
    mail_person from = m->from;
    write_date(m->at_us, out);
    mail_word_people(out, "From", &(mail_people){&from, 1});
    mail_word_people(out, "To", &m->to);
    mail_word_people(out, "Cc", &m->cc);
    mail_word_people(out, "Reply-To", &m->reply_to);
    mail_word_header(out, "Subject", m->subject);
    buf_fmt(out, "Message-ID: <%s>\r\nAuto-Submitted: auto-generated\r\nMIME-Version: 1.0\r\n", m->id);
    for (size_t i = 0; i < m->headers_count; i++) mail_word_header(out, m->headers[i].name, m->headers[i].value);
    write_body(m, out);
}
