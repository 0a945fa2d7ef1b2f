/* admission_internal.h - what the files of this package share. */
#ifndef ADMISSION_INTERNAL_H
#define ADMISSION_INTERNAL_H

#include "admission/admission.h"

/* ---- review.c ---- */

enum admission_outcome
{
  ADMISSION_ALLOWED,
  ADMISSION_DENIED,
  ADMISSION_FAILED,    /* internal failure, answered according to `strict` */
  ADMISSION_MALFORMED, /* no answer: HTTP 400 or 413 */
  ADMISSION_OUTCOME_MAX
};

/* admission_answer that also tells how it ended. */
int admission_review (const struct admission_route *route, bool strict, const char *body, size_t len, char **reply,
                      enum admission_outcome *outcome, struct error *err);

/* Makes a verdict: allowed with a warning / denied with a message (both copied). */
void admission_warn (struct admission_verdict *verdict, const char *text);
void admission_deny (struct admission_verdict *verdict, int code, const char *message);

/* ---- what the handlers ask of a request ---- */

/* The name people will look for: an object without one yet is known by its generateName. */
const char *admission_object_name (const struct admission_request *request);
/* What kind of holder of a cluster's spec is created or updated; NULL: none, or a subresource of one. */
const struct ray_holder *admission_holder (const struct admission_request *request);

/* ---- scale_down.c ---- */

/* Warns, for an update, of multi-host TPU groups that lose slices, but not all, and name no workers to delete, while
 * there are Pods of theirs without index labels. Asks the API server, for 2 s at most, and says nothing when that does
 * not answer. */
void admission_warn_of_holes (const struct admission_policy *policy, const struct ray_cluster *cluster,
                              const struct ray_cluster *before, struct admission_verdict *verdict);

#endif
