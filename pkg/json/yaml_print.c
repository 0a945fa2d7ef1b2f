/* yaml_print.c - JSON to YAML by libyaml's emitter: block style, no folding, strings quoted where they would change
 * type. */
#include "json/json.h"
#include "json/json_internal.h"

#include <string.h>

#include <yaml.h>

static int
write_bytes (void *data, unsigned char *bytes, size_t len)
{
  buf_add (data, bytes, len);
  return 1;
}

static void
emit_scalar (yaml_emitter_t *emitter, const char *text, yaml_scalar_style_t style)
{
  yaml_event_t event;

  if (!yaml_scalar_event_initialize (&event, NULL, NULL, (const yaml_char_t *) text, (int) strlen (text), 1, 1, style))
    /* The text is no UTF-8, which YAML cannot hold. */
    yaml_scalar_event_initialize (&event, NULL, NULL, (const yaml_char_t *) "\xef\xbf\xbd", 3, 1, 1, style);
  yaml_emitter_emit (emitter, &event);
}

static void
emit_string (yaml_emitter_t *emitter, const char *text)
{
  const char *newline = strchr (text, '\n');
  yaml_scalar_style_t style = YAML_ANY_SCALAR_STYLE;

  if (yaml_is_ambiguous (text))
    style = YAML_DOUBLE_QUOTED_SCALAR_STYLE;
  else if (newline != NULL)
    style = YAML_LITERAL_SCALAR_STYLE;
  emit_scalar (emitter, text, style);
}

static void
emit_value (yaml_emitter_t *emitter, const cJSON *v)
{
  yaml_event_t event;
  const cJSON *item;

  if (cJSON_IsString (v))
    emit_string (emitter, v->valuestring);
  else if (cJSON_IsObject (v))
    {
      yaml_mapping_start_event_initialize (&event, NULL, NULL, 1, YAML_ANY_MAPPING_STYLE);
      yaml_emitter_emit (emitter, &event);
      cJSON_ArrayForEach (item, v)
        {
          emit_string (emitter, item->string);
          emit_value (emitter, item);
        }
      yaml_mapping_end_event_initialize (&event);
      yaml_emitter_emit (emitter, &event);
    }
  else if (cJSON_IsArray (v))
    {
      yaml_sequence_start_event_initialize (&event, NULL, NULL, 1, YAML_ANY_SEQUENCE_STYLE);
      yaml_emitter_emit (emitter, &event);
      cJSON_ArrayForEach (item, v)
        emit_value (emitter, item);
      yaml_sequence_end_event_initialize (&event);
      yaml_emitter_emit (emitter, &event);
    }
  else
    {
      cleanup_free char *text = json_print (v);

      emit_scalar (emitter, text, YAML_PLAIN_SCALAR_STYLE);
    }
}

void
yaml_print (struct buf *out, const cJSON *v)
{
  yaml_emitter_t emitter;
  yaml_event_t event;

  yaml_emitter_initialize (&emitter);
  yaml_emitter_set_output (&emitter, write_bytes, out);
  yaml_emitter_set_width (&emitter, -1);
  yaml_emitter_set_unicode (&emitter, 1);
  yaml_stream_start_event_initialize (&event, YAML_UTF8_ENCODING);
  yaml_emitter_emit (&emitter, &event);
  yaml_document_start_event_initialize (&event, NULL, NULL, NULL, 1);
  yaml_emitter_emit (&emitter, &event);
  emit_value (&emitter, v);
  yaml_document_end_event_initialize (&event, 1);
  yaml_emitter_emit (&emitter, &event);
  yaml_stream_end_event_initialize (&event);
  yaml_emitter_emit (&emitter, &event);
  yaml_emitter_delete (&emitter);
}
