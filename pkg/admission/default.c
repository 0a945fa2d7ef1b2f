/* default.c - RayClusters, on their own or inside RayJobs and RayServices: what their topology says and they do not. */
#include "admission/admission_internal.h"

static void
log_defaults (const struct admission_request *request, const struct ray_defaults *defaults)
{
  const cJSON *warning;

  cJSON_ArrayForEach (warning, defaults->warnings)
    log_info ("defaulted numOfHosts", LF_STR ("kind", request->kind), LF_STR ("namespace", request->namespace),
              LF_STR ("name", admission_object_name (request)), LF_STR ("what", cJSON_GetStringValue (warning)),
              LF_INT ("dry_run", request->dry_run));
}

int
admission_default_raycluster (void *data, const struct admission_request *request, struct admission_verdict *verdict,
                              struct error *err)
{
  const struct admission_policy *policy = data;
  const struct ray_holder *holder = admission_holder (request);
  cleanup_defaults struct ray_defaults defaults = { 0 };

  (void) err;
  verdict->allowed = true;
  if (holder == NULL)
    return 0;
  ray_default_hosts (&defaults, holder, request->object, request->old_object, policy->ray);
  log_defaults (request, &defaults);
  verdict->patch = take_ptr (defaults.patch);
  verdict->warnings = take_ptr (defaults.warnings);
  return 0;
}
