/* Containers of pod templates: what the API server's schema and pod validation would refuse, as far as it is common or
 * would only come out when the first pod is created. */
#include "ray/ray_internal.h"

#include <string.h>

#define PORT_NAME_MAX 15 /* of an IANA service name */

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

static const struct ray_field source_fields[] = { { "fieldRef", RAY_KIND_OBJECT },
                                                  { "secretKeyRef", RAY_KIND_OBJECT },
                                                  { "configMapKeyRef", RAY_KIND_OBJECT },
                                                  { "resourceFieldRef", RAY_KIND_OBJECT } };

static const struct ray_field reference_fields[] = { { "name", RAY_KIND_STRING },
                                                     { "key", RAY_KIND_STRING },
                                                     { "fieldPath", RAY_KIND_STRING },
                                                     { "resource", RAY_KIND_STRING },
                                                     { "optional", RAY_KIND_BOOL } };

static const struct ray_field mount_fields[]
    = { { "name", RAY_KIND_STRING }, { "mountPath", RAY_KIND_STRING }, { "subPath", RAY_KIND_STRING } };

static const struct ray_field port_fields[]
    = { { "name", RAY_KIND_STRING }, { "containerPort", RAY_KIND_WHOLE }, { "protocol", RAY_KIND_STRING } };

static const struct ray_enum container_enums[]
    = { { "imagePullPolicy", { "Always", "IfNotPresent", "Never" } },
        { "terminationMessagePolicy", { "File", "FallbackToLogsOnError" } } };

static const struct ray_enum port_enums[] = { { "protocol", { "TCP", "UDP", "SCTP" } } };

/* There, but no string: ray_check_kinds says so. */
static bool
is_mistyped (const cJSON *object, const char *key)
{
  const cJSON *v = json_get (object, key);

  return v != NULL && !cJSON_IsNull (v) && !cJSON_IsString (v);
}

void
ray_check_unique (struct ray_problems *problems, const cJSON *list, const cJSON *item, const char *key,
                  const char *path)
{
  const char *text = json_str (item, key);

  if (text != NULL && json_find (list, key, text) != item)
    ray_problem (problems, RAY_REASON_SPEC, ray_path ("%s.%s", path, key).text,
                 "\"%.100s\" is there twice: give each its own", text);
}

void
ray_check_name_of (struct ray_problems *problems, const cJSON *object, const char *key, const char *path)
{
  const char *name = json_str (object, key);

  if (name != NULL && *name != '\0' && !text_is_dns1123_subdomain (name))
    ray_problem (problems, RAY_REASON_SPEC, ray_path ("%s.%s", path, key).text,
                 "\"%.100s\" is no name of an object: use lower-case letters, digits, '-' and '.', at most 253", name);
}

void
ray_check_enum (struct ray_problems *problems, const cJSON *object, const char *path, const struct ray_enum *fields,
                size_t count)
{
  for (size_t i = 0; i < count; i++)
    {
      const char *value = json_str (object, fields[i].key);
      cleanup_buf struct buf allowed = { 0 };

      if (value == NULL || *value == '\0' || text_index (value, fields[i].values, RAY_ENUM_MAX) >= 0)
        continue;
      for (size_t v = 0; v < RAY_ENUM_MAX && fields[i].values[v] != NULL; v++)
        buf_printf (&allowed, "%s%s", v > 0 ? ", " : "", fields[i].values[v]);
      ray_problem (problems, RAY_REASON_SPEC, ray_path ("%s.%s", path, fields[i].key).text,
                   "\"%.64s\" is unknown: use one of %s", value, buf_text (&allowed));
    }
}

static void
check_port_name (struct ray_problems *problems, const char *name, const char *path)
{
  if (name != NULL && *name != '\0' && (!text_is_dns1123_label (name) || strlen (name) > PORT_NAME_MAX))
    ray_problem (problems, RAY_REASON_SPEC, ray_path ("%s.name", path).text,
                 "\"%.64s\" is no port name: use at most %d lower-case letters, digits and '-'", name, PORT_NAME_MAX);
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
      ray_check_enum (problems, port, at.text, port_enums, ARRAY_LEN (port_enums));
      ray_check_unique (problems, ports, port, "name", at.text);
      check_port_name (problems, json_str (port, "name"), at.text);
      if (number == NULL || (json_is_whole (number) && (number->valuedouble < 1 || number->valuedouble > 65535)))
        ray_problem (problems, RAY_REASON_SPEC, ray_path ("%s.containerPort", at.text).text,
                     "must be a port number from 1 to 65535");
    }
}

/* Where a variable's value comes from. */
static void
check_source (struct ray_problems *problems, const cJSON *from, const char *path)
{
  ray_check_kinds (problems, from, path, source_fields, ARRAY_LEN (source_fields));
  for (size_t i = 0; i < ARRAY_LEN (source_fields); i++)
    ray_check_kinds (problems, json_get (from, source_fields[i].key),
                     ray_path ("%s.%s", path, source_fields[i].key).text, reference_fields,
                     ARRAY_LEN (reference_fields));
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
      check_source (problems, json_get (entry, "valueFrom"), ray_path ("%s.valueFrom", at.text).text);
      if (log_nonnull (json_str (entry, "name"))[0] == '\0' && !is_mistyped (entry, "name"))
        ray_problem (problems, RAY_REASON_SPEC, ray_path ("%s.name", at.text).text, "is missing: name the variable");
    }
}

/* Volumes that the operator adds under these names when they are not there (§3.4, §3.7). */
static const char *const added_volumes[] = { "shared-mem", "ray-logs", "ray-token", "gcs-storage" };

static void
check_mount (struct ray_problems *problems, const cJSON *mount, const cJSON *volumes, const char *path)
{
  const char *name = log_nonnull (json_str (mount, "name"));

  if (*name == '\0' && !is_mistyped (mount, "name"))
    ray_problem (problems, RAY_REASON_SPEC, ray_path ("%s.name", path).text,
                 "is missing: name a volume of the template");
  else if (*name != '\0' && json_find (volumes, "name", name) == NULL
           && text_index (name, added_volumes, ARRAY_LEN (added_volumes)) < 0)
    ray_problem (problems, RAY_REASON_SPEC, ray_path ("%s.name", path).text,
                 "there is no volume \"%.64s\": add it to the template's spec.volumes, or remove the mount", name);
  if (log_nonnull (json_str (mount, "mountPath"))[0] == '\0' && !is_mistyped (mount, "mountPath"))
    ray_problem (problems, RAY_REASON_SPEC, ray_path ("%s.mountPath", path).text,
                 "is missing: say where in the container the volume is to be");
}

static void
check_mounts (struct ray_problems *problems, const cJSON *container, const cJSON *volumes, const char *path)
{
  const cJSON *mounts = json_get (container, "volumeMounts"), *mount;
  int i = 0;

  if (!ray_is_list (mounts) || (volumes != NULL && !ray_is_list (volumes)))
    return;
  cJSON_ArrayForEach (mount, mounts)
    {
      struct ray_path at = ray_path ("%s.volumeMounts[%d]", path, i++);

      if (!cJSON_IsObject (mount))
        continue;
      ray_check_kinds (problems, mount, at.text, mount_fields, ARRAY_LEN (mount_fields));
      ray_check_unique (problems, mounts, mount, "mountPath", at.text);
      check_mount (problems, mount, volumes, at.text);
    }
}

static void
check_image (struct ray_problems *problems, const cJSON *container, const char *path)
{
  const char *image = log_nonnull (json_str (container, "image"));
  struct ray_path at = ray_path ("%s.image", path);
  size_t len = strlen (image);

  if (len == 0 && !is_mistyped (container, "image"))
    ray_problem (problems, RAY_REASON_SPEC, at.text, "is %s: name the image to run",
                 json_str (container, "image") != NULL ? "empty" : "missing");
  else if (len > 0 && (strchr (" \t\r\n", image[0]) != NULL || strchr (" \t\r\n", image[len - 1]) != NULL))
    ray_problem (problems, RAY_REASON_SPEC, at.text, "\"%.100s\" begins or ends with white space: remove it", image);
}

/* Names of containers and init containers share one space; `others` is the list checked before, or NULL. */
static void
check_container (struct ray_problems *problems, const cJSON *list, const cJSON *container, const cJSON *others,
                 const cJSON *volumes, const char *path)
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
  ray_check_unique (problems, list, container, "name", path);
  if (cJSON_IsString (name) && ray_is_list (others) && json_find (others, "name", name->valuestring) != NULL)
    ray_problem (problems, RAY_REASON_SPEC, ray_path ("%s.name", path).text,
                 "\"%.100s\" is also the name of a container: give each its own", name->valuestring);
  ray_check_enum (problems, container, path, container_enums, ARRAY_LEN (container_enums));
  check_image (problems, container, path);
  check_ports (problems, container, path);
  check_env (problems, container, path);
  check_mounts (problems, container, volumes, path);
}

void
ray_validate_containers (struct ray_problems *problems, const cJSON *spec, const char *section, const cJSON *others,
                         const char *spec_path)
{
  struct ray_path path = ray_path ("%s.%s", spec_path, section);
  const cJSON *list = json_get (spec, section), *container;
  int i = 0;

  if (!ray_is_list (list))
    return;
  cJSON_ArrayForEach (container, list)
    {
      if (cJSON_IsObject (container))
        check_container (problems, list, container, others, json_get (spec, "volumes"),
                         ray_path ("%s[%d]", path.text, i).text);
      i++;
    }
}
