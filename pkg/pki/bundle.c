/* bundle.c - when the CA and the serving certificate are replaced; the rule and its reasons are in pki.h. */
#include "pki/pki_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#define HOUR_MS (INT64_C (3600) * 1000)
#define DAY_MS (24 * HOUR_MS)

const struct pki_policy pki_default_policy = {
  .ca_valid_ms = 3650 * DAY_MS,
  .serving_valid_ms = 365 * DAY_MS,
  .ca_renew_before_ms = 365 * DAY_MS,
  .serving_renew_before_ms = 90 * DAY_MS,
  .ca_overlap_ms = DAY_MS,
};

struct refresh
{
  struct pki_bundle *bundle;
  const char *const *names;
  size_t nnames;
  const struct pki_policy *policy;
  int64_t now_ms;
  bool changed;
};

void
pki_bundle_free (struct pki_bundle *bundle)
{
  pki_pair_free (&bundle->ca);
  pki_pair_free (&bundle->serving);
  free (take_ptr (bundle->old_ca_pem));
}

/* Each condition keeps a refresh from finding its own fresh work due again. */
static int
check_policy (const struct pki_policy *p, struct error *err)
{
  if (p->serving_renew_before_ms < 0 || p->serving_renew_before_ms >= p->serving_valid_ms)
    return error_set (err, EINVAL,
                      "serving_renew_before (%" PRId64 " ms) must be shorter than serving_valid (%" PRId64 " ms)",
                      p->serving_renew_before_ms, p->serving_valid_ms);
  if (p->ca_renew_before_ms >= p->ca_valid_ms)
    return error_set (err, EINVAL, "ca_renew_before (%" PRId64 " ms) must be shorter than ca_valid (%" PRId64 " ms)",
                      p->ca_renew_before_ms, p->ca_valid_ms);
  if (p->ca_overlap_ms < 0 || p->ca_renew_before_ms < p->serving_renew_before_ms + p->ca_overlap_ms)
    return error_set (err, EINVAL,
                      "ca_renew_before (%" PRId64 " ms) must be at least serving_renew_before plus ca_overlap (%" PRId64
                      " ms), or the last serving certificate of a CA is always due",
                      p->ca_renew_before_ms, p->serving_renew_before_ms + p->ca_overlap_ms);
  return 0;
}

/* Key and certificate belong together and are in force now. */
static bool
pair_in_force (const struct pki_pair *pair, int64_t now_ms)
{
  struct pki_info info;

  return pki_check_pair (pair, NULL) == 0 && pki_info (&info, pair->cert_pem, NULL) == 0 && info.not_before_ms <= now_ms
         && now_ms < info.not_after_ms;
}

static bool
expired_or_broken (const char *cert_pem, int64_t now_ms)
{
  struct pki_info info;

  return pki_info (&info, cert_pem, NULL) < 0 || info.not_after_ms <= now_ms;
}

static int64_t
ca_due_ms (const struct refresh *r)
{
  struct pki_info info;

  return pki_info (&info, r->bundle->ca.cert_pem, NULL) < 0 ? 0 : info.not_after_ms - r->policy->ca_renew_before_ms;
}

static bool
serving_under_ca (const struct refresh *r)
{
  return pki_signed_by (r->bundle->serving.cert_pem, r->bundle->ca.cert_pem);
}

static bool
serving_under_old_ca (const struct refresh *r)
{
  return r->bundle->old_ca_pem != NULL && pki_signed_by (r->bundle->serving.cert_pem, r->bundle->old_ca_pem);
}

static bool
serving_usable (const struct refresh *r)
{
  const struct pki_bundle *b = r->bundle;

  if (!pair_in_force (&b->serving, r->now_ms) || !(serving_under_ca (r) || serving_under_old_ca (r)))
    return false;
  for (size_t i = 0; i < r->nnames; i++)
    if (!pki_covers (b->serving.cert_pem, r->names[i]))
      return false;
  return true;
}

/* When a usable serving certificate is to be replaced. Under the old CA that is the end of the overlap, since a renewal
 * would have to be signed by the new CA, which not every API server trusts yet; only its own end comes before that. */
static int64_t
serving_due_ms (const struct refresh *r)
{
  struct pki_info serving, ca;
  int64_t last_moment, overlap_end;

  if (pki_info (&serving, r->bundle->serving.cert_pem, NULL) < 0 || pki_info (&ca, r->bundle->ca.cert_pem, NULL) < 0)
    return 0;
  if (serving_under_ca (r))
    return serving.not_after_ms - r->policy->serving_renew_before_ms;
  last_moment = serving.not_after_ms - PKI_BACKDATE_MS;
  overlap_end = ca.not_before_ms + PKI_BACKDATE_MS + r->policy->ca_overlap_ms;
  return overlap_end < last_moment ? overlap_end : last_moment;
}

static int
renew_serving (struct refresh *r, struct error *err)
{
  struct pki_pair pair = { 0 };
  int ret = pki_make_serving (&pair, &r->bundle->ca, r->names, r->nnames, r->now_ms, r->policy->serving_valid_ms, err);

  if (ret < 0)
    return ret;
  pki_pair_free (&r->bundle->serving);
  r->bundle->serving = pair;
  r->changed = true;
  return 0;
}

/* The CA that stays trusted beside the new one: whichever signed the serving certificate in use. */
static char *
outgoing_ca (struct refresh *r)
{
  struct pki_bundle *b = r->bundle;

  if (serving_under_old_ca (r) && serving_usable (r))
    return take_ptr (b->old_ca_pem);
  if (b->ca.cert_pem == NULL || expired_or_broken (b->ca.cert_pem, r->now_ms))
    return NULL;
  return take_ptr (b->ca.cert_pem);
}

static int
replace_ca (struct refresh *r, struct error *err)
{
  struct pki_bundle *b = r->bundle;
  struct pki_pair pair = { 0 };
  char name[64];
  char *old;
  int ret;

  /* The date tells two CAs of one bundle apart, for people and for verifiers that look issuers up by name. */
  snprintf (name, sizeof (name), "ray-tpu-operator-ca@%" PRId64, r->now_ms / 1000);
  ret = pki_make_ca (&pair, name, r->now_ms, r->policy->ca_valid_ms, err);
  if (ret < 0)
    return ret;
  old = outgoing_ca (r);
  free (b->old_ca_pem);
  b->old_ca_pem = old;
  pki_pair_free (&b->ca);
  b->ca = pair;
  r->changed = true;
  return 0;
}

/* A CA that is sound but due hands over in order: a serving certificate that lasts the overlap, then the new CA. */
static int
hand_over_ca (struct refresh *r, struct error *err)
{
  if (!serving_usable (r) || !serving_under_ca (r) || r->now_ms >= serving_due_ms (r) - r->policy->ca_overlap_ms)
    {
      int ret = renew_serving (r, err);

      if (ret < 0)
        return ret;
    }
  return replace_ca (r, err);
}

static void
drop_old_ca (struct refresh *r)
{
  if (r->bundle->old_ca_pem == NULL || !expired_or_broken (r->bundle->old_ca_pem, r->now_ms))
    return;
  free (take_ptr (r->bundle->old_ca_pem));
  r->changed = true;
}

static int64_t
next_refresh_ms (const struct refresh *r)
{
  int64_t next = ca_due_ms (r), serving = serving_due_ms (r);
  struct pki_info old;

  if (serving < next)
    next = serving;
  if (r->bundle->old_ca_pem != NULL && pki_info (&old, r->bundle->old_ca_pem, NULL) == 0 && old.not_after_ms < next)
    next = old.not_after_ms;
  return next > r->now_ms ? next : r->now_ms + 1;
}

static int
run_refresh (struct refresh *r, struct error *err)
{
  int ret = 0;

  drop_old_ca (r);
  if (!pair_in_force (&r->bundle->ca, r->now_ms))
    ret = replace_ca (r, err);
  else if (r->now_ms >= ca_due_ms (r))
    ret = hand_over_ca (r, err);
  if (ret == 0 && (!serving_usable (r) || r->now_ms >= serving_due_ms (r)))
    ret = renew_serving (r, err);
  return ret;
}

int
pki_bundle_refresh (struct pki_bundle *bundle, const char *const *names, size_t nnames, const struct pki_policy *policy,
                    int64_t now_ms, bool *changed, int64_t *next_ms, struct error *err)
{
  struct refresh r = { .bundle = bundle, .names = names, .nnames = nnames, .policy = policy, .now_ms = now_ms };
  int ret = check_policy (policy, err);

  if (ret == 0)
    ret = pki_check_names (names, nnames, err);
  if (ret == 0)
    ret = run_refresh (&r, err);
  *changed = r.changed;
  if (ret == 0)
    *next_ms = next_refresh_ms (&r);
  return ret;
}

static void
add_pem (struct buf *out, const char *pem)
{
  if (pem == NULL)
    return;
  if (out->len > 0 && out->data[out->len - 1] != '\n')
    buf_char (out, '\n');
  buf_str (out, pem);
}

char *
pki_bundle_trust (const struct pki_bundle *bundle)
{
  cleanup_buf struct buf out = { 0 };

  add_pem (&out, bundle->ca.cert_pem);
  add_pem (&out, bundle->old_ca_pem);
  return buf_take (&out);
}
