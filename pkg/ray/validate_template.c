/* Pod templates: what the API server's schema and pod validation would refuse, as far as it is common or would only
 * come out when the first pod is created. */
#include "ray/ray_internal.h"

#include <string.h>

static const struct ray_field template_fields[] = { { "metadata", RAY_KIND_OBJECT }, { "spec", RAY_KIND_OBJECT } };

static const struct ray_field metadata_fields[] = {
  { "labels", RAY_KIND_STRING_MAP },
  { "annotations", RAY_KIND_STRING_MAP },
  { "finalizers", RAY_KIND_STRINGS },
};

static const struct ray_field spec_fields[] = {
  { "containers", RAY_KIND_OBJECTS },        { "initContainers", RAY_KIND_OBJECTS },
  { "volumes", RAY_KIND_OBJECTS },           { "nodeSelector", RAY_KIND_STRING_MAP },
  { "tolerations", RAY_KIND_OBJECTS },       { "affinity", RAY_KIND_OBJECT },
  { "imagePullSecrets", RAY_KIND_OBJECTS },  { "restartPolicy", RAY_KIND_STRING },
  { "serviceAccountName", RAY_KIND_STRING }, { "hostname", RAY_KIND_STRING },
  { "subdomain", RAY_KIND_STRING },          { "hostNetwork", RAY_KIND_BOOL },
  { "priorityClassName", RAY_KIND_STRING },  { "schedulerName", RAY_KIND_STRING },
  { "securityContext", RAY_KIND_OBJECT },
};

static const struct ray_field container_fields[] = {
  { "name", RAY_KIND_STRING },           { "image", RAY_KIND_STRING },           { "imagePullPolicy", RAY_KIND_STRING },
  { "command", RAY_KIND_STRINGS },       { "args", RAY_KIND_STRINGS },           { "env", RAY_KIND_OBJECTS },
  { "envFrom", RAY_KIND_OBJECTS },       { "ports", RAY_KIND_OBJECTS },          { "resources", RAY_KIND_OBJECT },
  { "volumeMounts", RAY_KIND_OBJECTS },  { "securityContext", RAY_KIND_OBJECT }, { "livenessProbe", RAY_KIND_OBJECT },
  { "readinessProbe", RAY_KIND_OBJECT }, { "startupProbe", RAY_KIND_OBJECT },
};

static const struct ray_field resources_fields[]
    = { { "limits", RAY_KIND_QUANTITIES }, { "requests", RAY_KIND_QUANTITIES } };

static const struct ray_field env_fields[]
    = { { "name", RAY_KIND_STRING }, { "value", RAY_KIND_STRING }, { "valueFrom", RAY_KIND_OBJECT } };

static const struct ray_field port_fields[]
    = { { "name", RAY_KIND_STRING }, { "containerPort", RAY_KIND_WHOLE }, { "protocol", RAY_KIND_STRING } };

/* An item of a list whose `key` must be a text that no earlier item has. */
static void
check_unique (struct ray_problems *problems, const cJSON *list, const cJSON *item, const char *key, const char *path)
{
  const char *text = json_str (item, key);

  if (text != NULL && json_find (list, key, text) != item)
    ray_problem (problems, RAY_REASON_SPEC, ray_path ("%s.%s", path, key).text,
                 "\"%.100s\" is there twice: give each its own", text);
}

static void
check_ports (struct ray_problems *problems, const cJSON *container, const char *path)
{
  const cJSON *ports = json_get (container, "ports"), *port;
  int i = 0;

  if (!ray_is_list (ports))
    return;
  cJSON_ArrayForEach (port, ports)
    {
      struct ray_path at = ray_path ("%s.ports[%d]", path, i++);
      const cJSON *number = json_get (port, "containerPort");

      if (!cJSON_IsObject (port))
        continue;
      ray_check_kinds (problems, port, at.text, port_fields, ARRAY_LEN (port_fields));
      check_unique (problems, ports, port, "name", at.text);
      if (number == NULL || (json_is_whole (number) && (number->valuedouble < 1 || number->valuedouble > 65535)))
        ray_problem (problems, RAY_REASON_SPEC, ray_path ("%s.containerPort", at.text).text,
                     "must be a port number from 1 to 65535");
    }
}

static void
check_env (struct ray_problems *problems, const cJSON *container, const char *path)
{
  const cJSON *env = json_get (container, "env"), *entry;
  int i = 0;

  if (!ray_is_list (env))
    return;
  cJSON_ArrayForEach (entry, env)
    {
      struct ray_path at = ray_path ("%s.env[%d]", path, i++);

      if (!cJSON_IsObject (entry))
        continue;
      ray_check_kinds (problems, entry, at.text, env_fields, ARRAY_LEN (env_fields));
      if (json_get (entry, "name") == NULL)
        ray_problem (problems, RAY_REASON_SPEC, ray_path ("%s.name", at.text).text, "is missing");
    }
}

/* Names of containers and init containers share one space; `others` is the list checked before, or NULL. */
static void
check_container (struct ray_problems *problems, const cJSON *list, const cJSON *container, const cJSON *others,
                 const char *path)
{
  const cJSON *name = json_get (container, "name");
  struct ray_path resources = ray_path ("%s.resources", path);

  ray_check_kinds (problems, container, path, container_fields, ARRAY_LEN (container_fields));
  ray_check_kinds (problems, json_get (container, "resources"), resources.text, resources_fields,
                   ARRAY_LEN (resources_fields));
  if (name == NULL)
    ray_problem (problems, RAY_REASON_SPEC, ray_path ("%s.name", path).text, "is missing: name the container");
  else if (cJSON_IsString (name) && !text_is_dns1123_label (name->valuestring))
    ray_problem (problems, RAY_REASON_SPEC, ray_path ("%s.name", path).text,
                 "\"%.100s\" is no DNS label: use lower-case letters, digits and '-', at most 63", name->valuestring);
  check_unique (problems, list, container, "name", path);
  if (cJSON_IsString (name) && ray_is_list (others) && json_find (others, "name", name->valuestring) != NULL)
    ray_problem (problems, RAY_REASON_SPEC, ray_path ("%s.name", path).text,
                 "\"%.100s\" is also the name of a container: give each its own", name->valuestring);
  check_ports (problems, container, path);
  check_env (problems, container, path);
}

static void
check_containers (struct ray_problems *problems, const cJSON *list, const cJSON *others, const char *path)
{
  const cJSON *container;
  int i = 0;

  if (!ray_is_list (list))
    return;
  cJSON_ArrayForEach (container, list)
    {
      if (cJSON_IsObject (container))
        check_container (problems, list, container, others, ray_path ("%s[%d]", path, i).text);
      i++;
    }
}

static void
check_volumes (struct ray_problems *problems, const cJSON *volumes, const char *path)
{
  const cJSON *volume;
  int i = 0;

  if (!ray_is_list (volumes))
    return;
  cJSON_ArrayForEach (volume, volumes)
    {
      struct ray_path at = ray_path ("%s[%d]", path, i++);

      if (cJSON_IsObject (volume) && json_str (volume, "name") == NULL)
        ray_problem (problems, RAY_REASON_SPEC, ray_path ("%s.name", at.text).text, "is missing: name the volume");
      check_unique (problems, volumes, volume, "name", at.text);
    }
}

void
ray_validate_template (struct ray_problems *problems, const cJSON *template, const char *path)
{
  const cJSON *spec = json_get (template, "spec"), *containers = json_get (spec, "containers");
  struct ray_path at = ray_path ("%s.spec", path);

  ray_check_kinds (problems, template, path, template_fields, ARRAY_LEN (template_fields));
  ray_check_kinds (problems, json_get (template, "metadata"), ray_path ("%s.metadata", path).text, metadata_fields,
                   ARRAY_LEN (metadata_fields));
  ray_check_kinds (problems, spec, at.text, spec_fields, ARRAY_LEN (spec_fields));
  if (containers == NULL || cJSON_IsNull (containers)
      || (cJSON_IsArray (containers) && cJSON_GetArraySize (containers) == 0))
    ray_problem (problems, RAY_REASON_SPEC, ray_path ("%s.containers", at.text).text,
                 "is empty: a template needs at least one container, and the first one runs Ray");
  check_containers (problems, containers, NULL, ray_path ("%s.containers", at.text).text);
  check_containers (problems, json_get (spec, "initContainers"), containers,
                    ray_path ("%s.initContainers", at.text).text);
  check_volumes (problems, json_get (spec, "volumes"), ray_path ("%s.volumes", at.text).text);
}
