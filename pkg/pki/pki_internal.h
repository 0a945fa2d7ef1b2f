/* pki_internal.h - OpenSSL handles with cleanup attributes, shared by the files of this package. */
#ifndef PKI_INTERNAL_H
#define PKI_INTERNAL_H

#include <openssl/evp.h>
#include <openssl/x509.h>

#include "pki/pki.h"

#define PKI_DEFINE_CLEANUP(type, fn)                                                                                   \
  static inline void fn##_cleanup (type **p)                                                                           \
  {                                                                                                                    \
    fn (*p);                                                                                                           \
  }
PKI_DEFINE_CLEANUP (X509, X509_free)
PKI_DEFINE_CLEANUP (EVP_PKEY, EVP_PKEY_free)
#define cleanup_x509 __attribute__ ((cleanup (X509_free_cleanup)))
#define cleanup_pkey __attribute__ ((cleanup (EVP_PKEY_free_cleanup)))

/* Sets "<what>: <OpenSSL's reason>" and empties this thread's OpenSSL error queue. Returns -code. */
int pki_openssl_error (struct error *err, int code, const char *what);

/* The first certificate / the private key of a PEM text; NULL with err. */
X509 *pki_load_cert (const char *pem, struct error *err);
EVP_PKEY *pki_load_key (const char *pem, struct error *err);

bool pki_is_ip (const char *name);
int pki_check_names (const char *const *names, size_t nnames,
                     struct error *err); /* some, and each a DNS name or an IP */

#endif
