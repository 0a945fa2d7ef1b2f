/* config_file.h - the file that --config names: KubeRay's Configuration (config.ray.io/v1alpha1, facts/kuberay.md
 * §5.1). Some of its fields are flags by another name; the others are what every pod gets, which no flag can say. */
#ifndef MANAGER_CONFIG_FILE_H
#define MANAGER_CONFIG_FILE_H

#include "json/json.h"
#include "ray/build.h"

/* Reads and checks it: -EINVAL with the file, the field, its value and what is allowed. Fields that concern what this
 * operator does not have (batch schedulers, log files, ...) are allowed, and logged when they ask for something. */
int config_file_load (cJSON **config, const char *path, struct error *err);
int config_parse (cJSON **config, const char *text, size_t len, const char *path, struct error *err); /* its text */

/* Calls set for each field that is a flag: its name and its value as one would write it. Ends at the first failure. The
 * text of a string field lives as long as the configuration, other texts until set returns. */
typedef int (*config_flag_fn) (void *data, const char *flag, const char *text, struct error *err);
int config_flags (const cJSON *config, config_flag_fn set, void *data, struct error *err);

/* What pods get: points into the configuration. NULL: nothing. */
void config_pods (const cJSON *config, struct ray_options *ray);

#endif
