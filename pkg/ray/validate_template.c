/* Pod templates but for their containers: what the API server's schema and pod validation would refuse, as far as it is
 * common or would only come out when the first pod is created. */
#include "ray/ray_internal.h"

#include <ctype.h>
#include <string.h>

#define LABEL_KEY_RULE                                                                                                 \
  "use at most 63 letters, digits, '-', '_' and '.', with an optional lower-case DNS name and '/' in front"

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
  { "securityContext", RAY_KIND_OBJECT },    { "dnsPolicy", RAY_KIND_STRING },
};

static const struct ray_enum spec_enums[] = {
  { "restartPolicy", { "Always", "OnFailure", "Never" } },
  { "dnsPolicy", { "ClusterFirst", "ClusterFirstWithHostNet", "Default", "None" } },
};

/* ---- labels, annotations, node selector ---- */

static void
check_label (struct ray_problems *problems, const cJSON *label, const char *path)
{
  const char *value = cJSON_GetStringValue (label);
  struct ray_path at = ray_path ("%s[\"%.100s\"]", path, label->string);

  if (!text_is_label_key (label->string))
    ray_problem (problems, RAY_REASON_SPEC, at.text, "this is no label key: " LABEL_KEY_RULE);
  else if (value != NULL && !text_is_label_value (value))
    ray_problem (problems, RAY_REASON_SPEC, at.text,
                 "\"%.100s\" is no label value: use at most 63 letters, digits, '-', '_' and '.', a letter or digit at "
                 "both ends",
                 value);
}

/* The prefix may be written in capitals. */
static void
check_annotation (struct ray_problems *problems, const cJSON *annotation, const char *path)
{
  cleanup_free char *key = xstrdup (annotation->string);

  for (char *c = key; *c != '\0'; c++)
    *c = (char) tolower ((unsigned char) *c);
  if (!text_is_label_key (key))
    ray_problem (problems, RAY_REASON_SPEC, ray_path ("%s[\"%.100s\"]", path, annotation->string).text,
                 "this is no annotation key: " LABEL_KEY_RULE);
}

static void
check_map (struct ray_problems *problems, const cJSON *object, const char *key, const char *path,
           void (*check) (struct ray_problems *problems, const cJSON *item, const char *path))
{
  const cJSON *map = json_get (object, key), *item;
  struct ray_path at = ray_path ("%s.%s", path, key);

  if (!cJSON_IsObject (map) || cJSON_GetArraySize (map) > RAY_ITEMS_MAX)
    return;
  cJSON_ArrayForEach (item, map)
    check (problems, item, at.text);
}

/* ---- names ---- */

static void
check_names (struct ray_problems *problems, const cJSON *spec, const char *path)
{
  static const char *const labels[] = { "hostname", "subdomain" };

  for (size_t i = 0; i < ARRAY_LEN (labels); i++)
    {
      const char *name = json_str (spec, labels[i]);

      if (name != NULL && *name != '\0' && !text_is_dns1123_label (name))
        ray_problem (problems, RAY_REASON_SPEC, ray_path ("%s.%s", path, labels[i]).text,
                     "\"%.100s\" is no DNS label: use lower-case letters, digits and '-', at most 63", name);
    }
  ray_check_name_of (problems, spec, "serviceAccountName", path);
}

/* ---- volumes ---- */

/* What is not its name is where it comes from, an object of its own. */
static void
check_volume_source (struct ray_problems *problems, const cJSON *volume, const char *path)
{
  static const struct ray_field fields[] = { { "medium", RAY_KIND_STRING }, { "sizeLimit", RAY_KIND_QUANTITY } };
  const cJSON *member;

  cJSON_ArrayForEach (member, volume)
    if (!text_eq (member->string, "name"))
      {
        const struct ray_field source = { member->string, RAY_KIND_OBJECT };

        ray_check_kinds (problems, volume, path, &source, 1);
      }
  ray_check_kinds (problems, json_get (volume, "emptyDir"), ray_path ("%s.emptyDir", path).text, fields,
                   ARRAY_LEN (fields));
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
      const char *name = json_str (volume, "name");

      if (cJSON_IsObject (volume) && name == NULL)
        ray_problem (problems, RAY_REASON_SPEC, ray_path ("%s.name", at.text).text, "is missing: name the volume");
      else if (name != NULL && !text_is_dns1123_label (name))
        ray_problem (problems, RAY_REASON_SPEC, ray_path ("%s.name", at.text).text,
                     "\"%.100s\" is no DNS label: use lower-case letters, digits and '-', at most 63", name);
      ray_check_unique (problems, volumes, volume, "name", at.text);
      if (cJSON_IsObject (volume))
        check_volume_source (problems, volume, at.text);
    }
}

void
ray_validate_template (struct ray_problems *problems, const cJSON *template, const char *path)
{
  const cJSON *spec = json_get (template, "spec"), *containers = json_get (spec, "containers");
  const char *dot = *path != '\0' ? "." : "";
  struct ray_path at = ray_path ("%s%sspec", path, dot), metadata = ray_path ("%s%smetadata", path, dot);

  ray_check_kinds (problems, template, path, template_fields, ARRAY_LEN (template_fields));
  ray_check_kinds (problems, json_get (template, "metadata"), metadata.text, metadata_fields,
                   ARRAY_LEN (metadata_fields));
  ray_check_kinds (problems, spec, at.text, spec_fields, ARRAY_LEN (spec_fields));
  ray_check_enum (problems, spec, at.text, spec_enums, ARRAY_LEN (spec_enums));
  check_map (problems, json_get (template, "metadata"), "labels", metadata.text, check_label);
  check_map (problems, json_get (template, "metadata"), "annotations", metadata.text, check_annotation);
  check_map (problems, spec, "nodeSelector", at.text, check_label);
  check_names (problems, spec, at.text);
  if (containers == NULL || cJSON_IsNull (containers)
      || (cJSON_IsArray (containers) && cJSON_GetArraySize (containers) == 0))
    ray_problem (problems, RAY_REASON_SPEC, ray_path ("%s.containers", at.text).text,
                 "is empty: a Pod needs at least one container");
  ray_validate_containers (problems, spec, "containers", NULL, at.text);
  ray_validate_containers (problems, spec, "initContainers", containers, at.text);
  check_volumes (problems, json_get (spec, "volumes"), ray_path ("%s.volumes", at.text).text);
}
