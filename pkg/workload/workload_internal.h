/* workload_internal.h - what the files of pkg/workload share. */
#ifndef WORKLOAD_WORKLOAD_INTERNAL_H
#define WORKLOAD_WORKLOAD_INTERNAL_H

#include "ray/manifest.h"
#include "workload/workload.h"

/* What expand functions append to. */
struct expansion
{
  cJSON *pods;
  const cJSON *object; /* the one that was asked about */
  struct error *err;
};

/* One per kind, asked about objects whose members are of their types: 0 or -errno. */
int workload_expand_job (struct expansion *x, const cJSON *job);
int workload_expand_cronjob (struct expansion *x, const cJSON *cronjob);
int workload_expand_jobset (struct expansion *x, const cJSON *jobset);
int workload_expand_lws (struct expansion *x, const cJSON *set);
int workload_expand_statefulset (struct expansion *x, const cJSON *set);
int workload_expand_deployment (struct expansion *x, const cJSON *deployment);

/* ---- types.c ---- */

/* Appends members of a wrong JSON type, or with values that there are not, but for those of pod templates. */
void workload_check_types (struct ray_problems *problems, const cJSON *object);

/* ---- building blocks ---- */

const char *workload_name (const cJSON *object); /* "" when absent */
/* A Pod made of the template, appended: metadata with labels and annotations of the template, its controller, and the
 * name or, when it ends in a dash, generateName. NULL with an error when there are too many or the template is none. */
cJSON *workload_pod (struct expansion *x, const cJSON *template, const char *name, const char *owner_kind,
                     const char *owner_name);
void workload_label (cJSON *pod, const char *key, const char *value);
void workload_annotate (cJSON *pod, const char *key, const char *value);
/* Calls fn for every container and init container of the pod. */
void workload_each_container (cJSON *pod, void (*fn) (cJSON *container, const void *data), const void *data);

#endif
