/* pki_internal.h - OpenSSL handles with cleanup attributes, shared by the files of this package. */
#ifndef PKI_INTERNAL_H
#define PKI_INTERNAL_H

#include <openssl/evp.h>
#include <openssl/x509.h>

#include "pki/pki.h"

static inline void
cleanup_x509p (X509 **cert)
{
  X509_free (*cert);
}

static inline void
cleanup_pkeyp (EVP_PKEY **key)
{
  EVP_PKEY_free (*key);
}

#define cleanup_x509 __attribute__ ((cleanup (cleanup_x509p)))
#define cleanup_pkey __attribute__ ((cleanup (cleanup_pkeyp)))

/* Sets "<what>: <OpenSSL's reason>" and empties this thread's OpenSSL error queue. Returns -code. */
int pki_openssl_error (struct error *err, int code, const char *what);

/* The first certificate / the private key of a PEM text; NULL with err. */
X509 *pki_load_cert (const char *pem, struct error *err);
EVP_PKEY *pki_load_key (const char *pem, struct error *err);

bool pki_is_ip (const char *name);
int pki_check_names (const char *const *names, size_t nnames,
                     struct error *err); /* some, and each a DNS name or an IP */

#endif
