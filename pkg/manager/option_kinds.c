/* The values flags take: each kind reads a text into its field or refuses it. */
#include "manager/options.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/listen.h"
#include "kube/selector.h"

/* ---- booleans: Go's spellings, since these are the ones people know from other operators ---- */

static bool
read_boolean (const struct flag *flag, void *field, const char *text)
{
  static const char *const spellings[2][3] = { { "false", "0", "f" }, { "true", "1", "t" } };

  (void) flag;
  for (int value = 0; value < 2; value++)
    for (size_t i = 0; i < ARRAY_LEN (spellings[value]); i++)
      if (text_eq_nocase (text, spellings[value][i]))
        {
          *(bool *) field = value == 1;
          return true;
        }
  return false;
}

/* ---- texts ---- */

static bool
take_text (void *field, const char *text, bool allowed)
{
  if (allowed)
    *(const char **) field = text;
  return allowed;
}

static bool
read_text (const struct flag *flag, void *field, const char *text)
{
  (void) flag;
  return take_text (field, text, true);
}

static bool
read_address (const struct flag *flag, void *field, const char *text)
{
  (void) flag;
  return take_text (field, text, listen_check (text, NULL) == 0);
}

static bool
read_address_or_off (const struct flag *flag, void *field, const char *text)
{
  return (strcmp (text, "0") == 0 && take_text (field, text, true)) || read_address (flag, field, text);
}

/* The API server takes https only, and neither user, query nor fragment (ValidateWebhookURL). A trailing slash would
 * double when the path is appended. */
static bool
read_url (const struct flag *flag, void *field, const char *text)
{
  static const char scheme[] = "https://";
  const char *host = text + sizeof (scheme) - 1;

  (void) flag;
  return take_text (field, text,
                    text[0] == '\0'
                        || (text_starts_with (text, scheme) && strcspn (host, "/:") > 0
                            && host[strcspn (host, "@?# \t")] == '\0' && !text_ends_with (text, "/")));
}

static bool
read_name (const struct flag *flag, void *field, const char *text)
{
  (void) flag;
  return take_text (field, text, text_is_dns1123_subdomain (text));
}

static bool
read_name_or_empty (const struct flag *flag, void *field, const char *text)
{
  return (text[0] == '\0' && take_text (field, text, true)) || read_name (flag, field, text);
}

static bool
read_namespaces (const struct flag *flag, void *field, const char *text)
{
  struct manager_options *options
      = (struct manager_options *) (void *) ((char *) field - offsetof (struct manager_options, namespaces));
  size_t capacity = 0;

  (void) flag;
  for (size_t i = 0; i < options->nnamespaces; i++)
    free (options->namespaces[i]);
  free (take_ptr (options->namespaces));
  options->nnamespaces = 0;
  while (text[0] != '\0')
    {
      size_t len = strcspn (text, ",");
      char *name = xstrndup (text, len);

      options->namespaces = xgrow (options->namespaces, options->nnamespaces, &capacity, sizeof (char *));
      options->namespaces[options->nnamespaces++] = name;
      if (!text_is_dns1123_label (name) || (text[len] == ',' && text[len + 1] == '\0'))
        return false;
      text += len + (text[len] == ',');
    }
  return true;
}

void
flag_labels_free (struct manager_labels *labels)
{
  for (size_t i = 0; i < ARRAY_LEN (labels->items); i++)
    free (take_ptr (labels->items[i]));
}

static bool
read_labels (const struct flag *flag, void *field, const char *text)
{
  struct manager_labels *labels = field;
  const size_t most = ARRAY_LEN (labels->items);

  (void) flag;
  flag_labels_free (labels);
  for (size_t i = 0; i < most; i++)
    {
      size_t len = strcspn (text, ",");

      labels->items[i] = xstrndup (text, len);
      if (!kube_is_label_key (labels->items[i]))
        return false;
      if (text[len] == '\0')
        return true;
      text += len + 1;
    }
  return false;
}

static bool
read_selector (const struct flag *flag, void *field, const char *text)
{
  struct kube_selector *selector = NULL;
  bool ok = kube_selector_parse (&selector, text, NULL) == 0;

  (void) flag;
  kube_selector_free (selector);
  return take_text (field, text, ok);
}

/* ---- numbers ---- */

static bool
read_number (const struct flag *flag, void *field, const char *text)
{
  return text_to_int (text, flag->min, flag->max, field) == 0;
}

/* Digits with an optional fraction; *end is what follows. False when there is no number. */
static bool
read_decimal (const char *text, double *value, const char **end)
{
  size_t whole = strspn (text, "0123456789"), len = whole;

  if (text[len] == '.')
    len += 1 + strspn (text + len + 1, "0123456789");
  *end = text + len;
  *value = whole > 0 && len < 32 ? strtod (text, NULL) : 0;
  return whole > 0 && len < 32 && text[len - 1] != '.';
}

static bool
read_rate (const struct flag *flag, void *field, const char *text)
{
  double value;
  const char *end;

  if (!read_decimal (text, &value, &end) || *end != '\0' || value > (double) flag->max)
    return false;
  *(double *) field = value;
  return true;
}

/* As Go's time.ParseDuration ("1m30s", "500ms"); a bare number counts seconds. */
static bool
read_duration (const struct flag *flag, void *field, const char *text)
{
  static const struct unit
  {
    const char *name;
    double ms;
  } units[] = { { "ms", 1 }, { "s", 1000 }, { "m", 60 * 1000 }, { "h", 60 * 60 * 1000 } };
  double total = 0, value;
  bool bare = text[0] != '\0' && text[strspn (text, "0123456789")] == '\0';

  do
    {
      size_t len, i = 0;

      if (!read_decimal (text, &value, &text))
        return false;
      len = strspn (text, "hms");
      while (!bare && i < ARRAY_LEN (units)
             && (strlen (units[i].name) != len || strncmp (text, units[i].name, len) != 0))
        i++;
      if (i == ARRAY_LEN (units))
        return false;
      total += value * (bare ? 1000 : units[i].ms);
      text += len;
    }
  while (*text != '\0');
  if (total < (double) flag->min || total > (double) flag->max)
    return false;
  *(int64_t *) field = llround (total);
  return true;
}

/* ---- logs ---- */

static bool
take_index (void *field, int index)
{
  if (index >= 0)
    *(int64_t *) field = index;
  return index >= 0;
}

static bool
read_log_level (const struct flag *flag, void *field, const char *text)
{
  (void) flag;
  return take_index (field, log_level_parse (text));
}

static bool
read_log_format (const struct flag *flag, void *field, const char *text)
{
  (void) flag;
  return take_index (field, log_format_parse (text));
}

/* ---- the kinds ---- */

const struct flag_kind flag_boolean = { NULL, "true or false", read_boolean };
const struct flag_kind flag_text = { "FILE", "a file name", read_text };
const struct flag_kind flag_address = { "ADDRESS", "host:port, :port or [IPv6]:port", read_address };
const struct flag_kind flag_address_or_off
    = { "ADDRESS", "host:port, :port, [IPv6]:port, or 0 to turn it off", read_address_or_off };
const struct flag_kind flag_url
    = { "URL", "https://host[:port][/path] without user, query, fragment or trailing slash", read_url };
const struct flag_kind flag_name = { "NAME", "an object name (lower case letters, digits, '-' and '.')", read_name };
const struct flag_kind flag_name_or_empty
    = { "NAME", "an object name (lower case letters, digits, '-' and '.') or nothing", read_name_or_empty };
const struct flag_kind flag_domain = { "DOMAIN", "a DNS domain (lower case letters, digits, '-' and '.')", read_name };
const struct flag_kind flag_namespaces = { "NAMES", "namespaces, separated by commas", read_namespaces };
const struct flag_kind flag_labels = { "KEYS", "one to four label keys, separated by commas", read_labels };
const struct flag_kind flag_selector
    = { "SELECTOR",
        "a label selector such as team=a, team!=a, team in (a,b), team notin (a,b), team or !team, or several "
        "separated by commas",
        read_selector };
const struct flag_kind flag_number = { "N", NULL, read_number };
const struct flag_kind flag_rate = { "RATE", "requests per second, 0 for no limit", read_rate };
const struct flag_kind flag_duration = { "DURATION", NULL, read_duration };
const struct flag_kind flag_log_level = { "LEVEL", "debug, info, warn or error", read_log_level };
const struct flag_kind flag_log_format = { "FORMAT", "text or json", read_log_format };

void
flag_describe_allowed (const struct flag *flag, struct buf *out)
{
  if (flag->kind->allowed != NULL)
    buf_str (out, flag->kind->allowed);
  else if (flag->kind == &flag_duration)
    buf_printf (out, "seconds or a duration such as 15s or 1m30s, from %gs to %gs", (double) flag->min / 1000,
                (double) flag->max / 1000);
  else
    buf_printf (out, "a whole number from %" PRId64 " to %" PRId64, flag->min, flag->max);
}
