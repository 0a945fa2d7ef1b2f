#include "base/text.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/memory.h"

bool
text_eq (const char *a, const char *b)
{
  return a == b || (a != NULL && b != NULL && strcmp (a, b) == 0);
}

bool
text_starts_with (const char *text, const char *prefix)
{
  return strncmp (text, prefix, strlen (prefix)) == 0;
}

bool
text_ends_with (const char *text, const char *suffix)
{
  size_t n = strlen (text), m = strlen (suffix);

  return n >= m && strcmp (text + n - m, suffix) == 0;
}

bool
text_eq_nocase (const char *a, const char *b)
{
  return a != NULL && b != NULL && strcasecmp (a, b) == 0;
}

int
text_index (const char *text, const char *const *list, size_t count)
{
  for (size_t i = 0; i < count; i++)
    if (text_eq (text, list[i]))
      return (int) i;
  return -1;
}

static bool
is_lower_alnum (char c)
{
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

static bool
is_label (const char *text, size_t len)
{
  if (len == 0 || len > 63 || !is_lower_alnum (text[0]) || !is_lower_alnum (text[len - 1]))
    return false;
  for (size_t i = 0; i < len; i++)
    if (!is_lower_alnum (text[i]) && text[i] != '-')
      return false;
  return true;
}

bool
text_is_dns1123_label (const char *text)
{
  return is_label (text, strlen (text));
}

bool
text_is_dns1035_label (const char *text)
{
  return text_is_dns1123_label (text) && !isdigit ((unsigned char) text[0]);
}

bool
text_is_dns1123_subdomain (const char *text)
{
  if (strlen (text) > 253)
    return false;
  for (;;)
    {
      size_t len = strcspn (text, ".");

      if (!is_label (text, len))
        return false;
      if (text[len] == '\0')
        return true;
      text += len + 1;
    }
}

bool
text_is_label_value (const char *text)
{
  size_t len = strlen (text);

  if (len == 0)
    return true;
  if (len > 63 || !isalnum ((unsigned char) text[0]) || !isalnum ((unsigned char) text[len - 1]))
    return false;
  for (size_t i = 0; i < len; i++)
    if (!isalnum ((unsigned char) text[i]) && strchr ("-_.", text[i]) == NULL)
      return false;
  return true;
}

bool
text_is_label_key (const char *text)
{
  const char *slash = strchr (text, '/'), *name = slash != NULL ? slash + 1 : text;
  cleanup_free char *prefix = slash != NULL ? xstrndup (text, (size_t) (slash - text)) : NULL;

  return *name != '\0' && text_is_label_value (name) && (prefix == NULL || text_is_dns1123_subdomain (prefix));
}

int
text_to_int (const char *text, int64_t min, int64_t max, int64_t *value)
{
  char *end;
  long long n;

  if (!isdigit ((unsigned char) text[0]) && !(text[0] == '-' && min < 0 && isdigit ((unsigned char) text[1])))
    return -EINVAL;
  errno = 0;
  n = strtoll (text, &end, 10);
  if (errno != 0 || *end != '\0' || n < min || n > max)
    return -EINVAL;
  *value = n;
  return 0;
}

void
text_quote_json (struct buf *out, const char *text)
{
  buf_char (out, '"');
  for (; *text != '\0'; text++)
    {
      unsigned char c = (unsigned char) *text;

      if (c == '"' || c == '\\')
        {
          buf_char (out, '\\');
          buf_char (out, (char) c);
        }
      else if (c == '\n')
        buf_str (out, "\\n");
      else if (c == '\t')
        buf_str (out, "\\t");
      else if (c < 0x20)
        buf_printf (out, "\\u%04x", c);
      else
        buf_char (out, (char) c);
    }
  buf_char (out, '"');
}

uint64_t
text_hash (uint64_t seed, const void *data, size_t len)
{
  const unsigned char *p = data;
  uint64_t h = 14695981039346656037ULL ^ seed;

  for (size_t i = 0; i < len; i++)
    h = (h ^ p[i]) * 1099511628211ULL;
  h = (h ^ (h >> 33)) * 0xff51afd7ed558ccdULL;
  h = (h ^ (h >> 33)) * 0xc4ceb9fe1a85ec53ULL;
  return h ^ (h >> 33);
}

uint64_t
text_hash_str (uint64_t seed, const char *text)
{
  return text_hash (seed, text, strlen (text) + 1);
}

int
text_read_file (const char *path, size_t limit, struct buf *out, struct error *err)
{
  cleanup_close int fd = open (path, O_RDONLY | O_CLOEXEC);
  char chunk[8192];
  ssize_t n;

  if (fd < 0)
    return error_set (err, errno, "cannot open %s: %s", path, strerror (errno));
  while ((n = read (fd, chunk, sizeof (chunk))) > 0)
    {
      if (out->len + (size_t) n > limit)
        return error_set (err, EFBIG, "%s is larger than %zu bytes", path, limit);
      buf_add (out, chunk, (size_t) n);
    }
  if (n < 0)
    return error_set (err, errno, "cannot read %s: %s", path, strerror (errno));
  return 0;
}
