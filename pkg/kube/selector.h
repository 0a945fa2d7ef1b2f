/* selector.h - label selectors as kubectl and the API server write them: "team=a,tier in (x,y),!old". Needed here
 * beside the server's own, because the answer to a write tells of an object that the watch may no longer. */
#ifndef KUBE_SELECTOR_H
#define KUBE_SELECTOR_H

#include "json/json.h"

bool
kube_is_label_key (const char *text); /* a name of at most 63 characters, maybe with a DNS domain and a slash in front
                                       */

struct kube_selector;

/* "key", "!key", "key=v", "key==v", "key!=v", "key in (v,...)", "key notin (v,...)", separated by commas; an empty text
 * selects everything. -EINVAL: one sentence with the part that is wrong. */
int kube_selector_parse (struct kube_selector **selector, const char *text, struct error *err);
bool kube_selector_matches (const struct kube_selector *selector, const cJSON *labels); /* NULL selects everything */
void kube_selector_free (struct kube_selector *selector);                               /* NULL is fine */

#endif
