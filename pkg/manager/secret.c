/* secret.c - the bundle as the data of a Secret. */
#include "manager/manager_internal.h"

#include <string.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>

char *
base64_encode (const char *text)
{
  size_t len = strlen (text);
  char *out = xmalloc (len / 3 * 4 + 5);

  EVP_EncodeBlock ((unsigned char *) out, (const unsigned char *) text, (int) len);
  return out;
}

/* NULL when it is none. Text only: what follows a NUL byte is lost. Owned by the caller. */
static char *
base64_decode (const char *text)
{
  size_t len = strlen (text);
  cleanup_free unsigned char *out = xmalloc (len / 4 * 3 + 4);
  int n = len > 0 && len < INT32_MAX ? EVP_DecodeBlock (out, (const unsigned char *) text, (int) len) : -1;
  char *copy;

  if (n < 0)
    return NULL;
  copy = xstrndup ((const char *) out, (size_t) n); /* the padding comes out as NULs, which end the text */
  OPENSSL_cleanse (out, (size_t) n);
  return copy;
}

/* Where each key's text is kept. */
#define SECRET_KEYS 5
static void
texts_of (struct pki_bundle *bundle, char **texts[SECRET_KEYS])
{
  texts[0] = &bundle->ca.cert_pem;
  texts[1] = &bundle->ca.key_pem;
  texts[2] = &bundle->old_ca_pem;
  texts[3] = &bundle->serving.cert_pem;
  texts[4] = &bundle->serving.key_pem;
}

static const char *const secret_keys[SECRET_KEYS] = { "ca.crt", "ca.key", "old-ca.crt", "tls.crt", "tls.key" };

void
secret_read_bundle (struct pki_bundle *bundle, const cJSON *secret)
{
  char **texts[SECRET_KEYS];

  texts_of (bundle, texts);
  for (size_t i = 0; i < SECRET_KEYS; i++)
    {
      const char *encoded = json_str (secret, "data", secret_keys[i]);

      *texts[i] = encoded ? base64_decode (encoded) : NULL;
    }
}

void
secret_write_bundle (cJSON *secret, const struct pki_bundle *bundle)
{
  struct pki_bundle view = *bundle;
  cJSON *data = json_obj (secret, "data");
  char **texts[SECRET_KEYS];

  texts_of (&view, texts);
  for (size_t i = 0; i < SECRET_KEYS; i++)
    {
      cleanup_free char *encoded = *texts[i] ? base64_encode (*texts[i]) : NULL;

      if (encoded != NULL)
        json_set_str (data, secret_keys[i], encoded);
      else
        json_drop (data, secret_keys[i]);
    }
}
