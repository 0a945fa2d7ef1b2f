/* What the Ray container runs (§3.3). */
#include "ray/ray_internal.h"

#include <string.h>

void
ray_set_shell (cJSON *container, const struct ray_options *options, const char *script)
{
  cJSON *command = json_set (container, "command", cJSON_CreateArray ());

  json_push_str (command, "/bin/bash");
  json_push_str (command, options->login_shell ? "-cl" : "-c");
  json_push_str (command, "--");
  json_push_str (json_set (container, "args", cJSON_CreateArray ()), script);
}

/* Each word with a space on both sides, as upstream joins them; quoting is lost, which its users know to expect. */
static void
flatten (struct buf *out, const cJSON *words)
{
  const cJSON *word;

  if (cJSON_IsArray (words))
    cJSON_ArrayForEach (word, words)
      if (cJSON_IsString (word))
        buf_printf (out, " %s ", word->valuestring);
}

/* The user's command runs first; when it starts ray itself, or the RayCluster says ray.io/overwrite-container-cmd, it
 * stays as it is and finds our line in KUBERAY_GEN_RAY_START_CMD. */
void
ray_add_command (struct pod_build *b)
{
  cleanup_buf struct buf user = { 0 };
  cleanup_free char *script = NULL;

  flatten (&user, json_get (b->ray, "command"));
  flatten (&user, json_get (b->ray, "args"));
  if (text_eq_nocase (json_str (b->meta, "annotations", RAY_ANNOTATION_OVERWRITE_CMD), "true")
      || strstr (buf_text (&user), "ray start") != NULL)
    return;
  script = xasprintf ("%s%sulimit -n ${RAY_START_ULIMIT_OPEN_FILES:-65536}; %s", buf_text (&user),
                      user.len > 0 ? " && " : "", b->ray_start);
  ray_set_shell (b->ray, b->options, script);
}
