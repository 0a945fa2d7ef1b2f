/* selector.c - label selectors, parsed and applied. */
#include "kube/selector.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#define NAME_MAX_LEN 63
#define SPACES " \t"

struct requirement
{
  char *key;
  bool negated;  /* holds where it would not */
  bool has_list; /* the value is one of `values`; else: the label exists */
  char **values;
  size_t nvalues, cap;
};

struct kube_selector
{
  struct requirement *items;
  size_t count, cap;
};

/* ---- words ---- */

static bool
is_name (const char *text, size_t len)
{
  for (size_t i = 0; i < len; i++)
    if (!isalnum ((unsigned char) text[i]) && (i == 0 || i == len - 1 || strchr ("-_.", text[i]) == NULL))
      return false;
  return len <= NAME_MAX_LEN;
}

bool
kube_is_label_key (const char *key)
{
  const char *slash = strchr (key, '/'), *name = slash ? slash + 1 : key;
  cleanup_free char *domain = slash ? xstrndup (key, (size_t) (slash - key)) : NULL;

  return (domain == NULL || text_is_dns1123_subdomain (domain)) && name[0] != '\0' && is_name (name, strlen (name));
}

static void
skip_spaces (const char **text)
{
  *text += strspn (*text, SPACES);
}

/* The next word, which may be empty; owned by the caller. */
static char *
take_word (const char **text)
{
  size_t len;
  char *word;

  skip_spaces (text);
  len = strcspn (*text, SPACES ",=!()<>");
  word = xstrndup (*text, len);
  *text += len;
  skip_spaces (text);
  return word;
}

static bool
take_sign (const char **text, const char *sign)
{
  if (!text_starts_with (*text, sign))
    return false;
  *text += strlen (sign);
  return true;
}

/* ---- parsing ---- */

static bool
take_value (struct requirement *r, const char **text)
{
  char *value = take_word (text);

  r->values = xgrow (r->values, r->nvalues, &r->cap, sizeof (char *));
  r->values[r->nvalues++] = value;
  return is_name (value, strlen (value));
}

/* "(a, b)" */
static bool
take_list (struct requirement *r, const char **text)
{
  if (!take_sign (text, "("))
    return false;
  do
    if (!take_value (r, text))
      return false;
  while (take_sign (text, ","));
  return take_sign (text, ")");
}

/* What follows the key. */
static bool
take_condition (struct requirement *r, const char **text)
{
  cleanup_free char *word = NULL;

  if (**text == '\0' || **text == ',')
    return true;
  if (r->negated)
    return false; /* "!key=value" */
  r->has_list = true;
  r->negated = take_sign (text, "!=");
  if (r->negated || take_sign (text, "==") || take_sign (text, "="))
    return take_value (r, text);
  word = take_word (text);
  r->negated = strcmp (word, "notin") == 0;
  return (r->negated || strcmp (word, "in") == 0) && take_list (r, text);
}

static bool
take_requirement (struct requirement *r, const char **text)
{
  skip_spaces (text);
  r->negated = take_sign (text, "!");
  r->key = take_word (text);
  if (!kube_is_label_key (r->key) || !take_condition (r, text))
    return false;
  skip_spaces (text);
  return **text == '\0' || **text == ',';
}

int
kube_selector_parse (struct kube_selector **out, const char *text, struct error *err)
{
  struct kube_selector *s = xcalloc (1, sizeof (*s));
  const char *at = text;

  *out = NULL;
  skip_spaces (&at);
  for (bool more = *at != '\0'; more; more = take_sign (&at, ","))
    {
      const char *start = at;

      s->items = xgrow (s->items, s->count, &s->cap, sizeof (*s->items));
      s->items[s->count] = (struct requirement){ 0 };
      if (!take_requirement (&s->items[s->count++], &at))
        {
          kube_selector_free (s);
          return error_set (err, EINVAL,
                            "\"%s\" is no label selector, from \"%.60s\" on: write key=value, key!=value, "
                            "key in (a,b), key notin (a,b), key or !key, separated by commas",
                            text, start);
        }
    }
  *out = s;
  return 0;
}

/* ---- use ---- */

static bool
holds (const struct requirement *r, const char *value)
{
  if (!r->has_list)
    return value != NULL;
  for (size_t i = 0; value != NULL && i < r->nvalues; i++)
    if (strcmp (r->values[i], value) == 0)
      return true;
  return false;
}

bool
kube_selector_matches (const struct kube_selector *selector, const cJSON *labels)
{
  for (size_t i = 0; selector != NULL && i < selector->count; i++)
    if (holds (&selector->items[i], json_str (labels, selector->items[i].key)) == selector->items[i].negated)
      return false;
  return true;
}

void
kube_selector_free (struct kube_selector *selector)
{
  if (selector == NULL)
    return;
  for (size_t i = 0; i < selector->count; i++)
    {
      struct requirement *r = &selector->items[i];

      for (size_t v = 0; v < r->nvalues; v++)
        free (r->values[v]);
      free (r->values);
      free (r->key);
    }
  free (selector->items);
  free (selector);
}
