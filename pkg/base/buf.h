/* buf.h - growing text. Zero-initialise (`cleanup_buf struct buf b = { 0 };`); data is NUL-terminated once anything was
 * added. */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include <stddef.h>

struct buf
{
  char *data; /* NULL while empty */
  size_t len, cap;
};

void buf_add (struct buf *b, const void *data, size_t len);
void buf_str (struct buf *b, const char *text);
void buf_char (struct buf *b, char c);
void buf_printf (struct buf *b, const char *fmt, ...) __attribute__ ((format (printf, 2, 3), nonnull (2)));
void buf_reset (struct buf *b); /* empties, keeps the memory */
void buf_free (struct buf *b);
char *buf_take (struct buf *b);       /* the text, owned by the caller ("" when empty); b is empty afterwards */
const char *buf_text (struct buf *b); /* the text, "" when empty; valid until b changes */

#define cleanup_buf __attribute__ ((cleanup (buf_free)))

#endif
