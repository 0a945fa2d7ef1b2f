/* pki.h - the webhook's own CA and serving certificate: made, checked, renewed with an overlap in which old and new CA
 * are both trusted (design §5). ECDSA P-256, so making one takes well under a millisecond. No I/O; time is handed in.
 * Errors name certificates and libraries' reasons, never key material. */
#ifndef PKI_PKI_H
#define PKI_PKI_H

#include "base/base.h"

struct pki_pair
{
  char *cert_pem, *key_pem; /* owned; NULL when absent */
};
void pki_pair_free (struct pki_pair *pair); /* wipes the key before it gives the memory back */
#define cleanup_pair __attribute__ ((cleanup (pki_pair_free)))

struct pki_info
{
  int64_t not_before_ms, not_after_ms; /* wall clock */
  char subject[256];                   /* "CN=..." (RFC 2253) */
  char serial[64];                     /* hex */
};

/* Certificates start to be valid this long before `now`, so that an API server whose clock is a little behind accepts
 * them. */
#define PKI_BACKDATE_MS (INT64_C (5) * 60 * 1000)

/* A self-signed CA / a serving certificate for DNS names and IP addresses (told apart by their form), signed by ca.
 * Both are valid until now + valid_ms; a serving certificate never outlives its CA. `out` is written on success only
 * (what it held before is the caller's to free). -EINVAL: no names, a name that is neither, a ca whose key is missing
 * or foreign, or one that is over. */
int pki_make_ca (struct pki_pair *out, const char *common_name, int64_t now_ms, int64_t valid_ms, struct error *err);
int pki_make_serving (struct pki_pair *out, const struct pki_pair *ca, const char *const *names, size_t nnames,
                      int64_t now_ms, int64_t valid_ms, struct error *err);
int pki_info (struct pki_info *info, const char *cert_pem,
              struct error *err);                                    /* of the first certificate in the text */
int pki_check_pair (const struct pki_pair *pair, struct error *err); /* the key belongs to the certificate */
/* A DNS name or IP address among the certificate's alternative names; the common name does not count, as in Go. */
bool pki_covers (const char *cert_pem, const char *name);
bool pki_signed_by (const char *cert_pem, const char *ca_pem); /* by this very CA key; says nothing about dates */

/* What the Secret holds. ca is the newest CA, old_ca the certificate of the one before, which stays trusted until it
 * expires; its key is forgotten when the new CA is made. The serving certificate is signed by one of the two. */
struct pki_bundle
{
  struct pki_pair ca, serving;
  char *old_ca_pem; /* NULL when none */
};
void pki_bundle_free (struct pki_bundle *bundle);
#define cleanup_bundle __attribute__ ((cleanup (pki_bundle_free)))

struct pki_policy
{
  int64_t ca_valid_ms, serving_valid_ms;               /* 10 years, 1 year */
  int64_t ca_renew_before_ms, serving_renew_before_ms; /* 1 year, 90 days; shorter than the validity */
  int64_t ca_overlap_ms; /* 24 h: how long a new CA is only trusted before it signs; shorter than ca_renew_before_ms */
};
extern const struct pki_policy pki_default_policy;

/* Brings a bundle up to date: makes what is missing, broken, expired, not covering `names`, or due. The rule is "trust
 * first, use later":
 *
 * - A CA that is due is replaced while its key is still at hand: the serving certificate is first made fit to last the
 * overlap, then the new CA is added and the old one kept in old_ca_pem. The serving certificate in use is still the old
 * CA's.
 * - Once the new CA is ca_overlap_ms old, hence in every API server's caBundle, the serving certificate is re-made
 * under it.
 * - A serving certificate that cannot be used at all (missing, broken, expired, other names, signed by neither CA) is
 * re-made at once.
 *
 * Everything is decided from the certificates' own dates, so a restart forgets nothing and every replica decides alike.
 * A refreshed bundle counts only once it is stored: write it with the resourceVersion it was read with, and on a
 * conflict drop it, read again and refresh again; publish caBundle before serving with it. Replicas with different
 * clocks settle, since a certificate that is not valid yet counts as broken and its replacement is valid for both.
 *
 * *changed tells whether anything is new. *next_ms: when to call again at the latest, always after now_ms. On failure
 * the bundle is still consistent, at worst without the step that failed. -EINVAL for a policy or names that make no
 * sense. */
int pki_bundle_refresh (struct pki_bundle *bundle, const char *const *names, size_t nnames,
                        const struct pki_policy *policy, int64_t now_ms, bool *changed, int64_t *next_ms,
                        struct error *err);
/* caBundle text: new CA, then old. Owned by the caller; "" before the first refresh. */
char *pki_bundle_trust (const struct pki_bundle *bundle);

#endif
