/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 */
#include "base/base.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include "base/strkey.h"

#define ISSUER "GA5ZSEJYB37JRC5AVCIA5MOP4RHTM335X2KGX3IHOJAPP5RE34K4KZVN"
#define NATIVE_CONTRACT "CAS3J7GYLGXMF6TDJBBYYSE3HQ6BBSMLNUQ34T6TZMYMW2EVH34XOWMA"

static bool account(const char *text)
{
    return qn_strkey_valid(QN_STRKEY_ACCOUNT, qn_str_of(text));
}

static void real_keys_are_valid(void **state)
{
    (void)state;
    assert_true(account(ISSUER));
    assert_true(account("GBVAOIACNSB7OVUXJYC5UE2D4YK2F7A24T7EE5YOMN4CE6GCHUTOUQXM"));
    assert_true(account("GCRYUGD5NVARGXT56XEZI5CIFCQETYHAPQQTHO2O3IQZTHDH4LATMYWC"));
    assert_true(qn_strkey_valid(QN_STRKEY_CONTRACT, QN_STR(NATIVE_CONTRACT)));
    assert_true(qn_strkey_valid(QN_STRKEY_CONTRACT,
                QN_STR("CCW67TSZV3SSS2HXMBQ5JFGCKJNXKZM7UQUWUZPUTHXSTZLEO7SJMI75")));
}

/* The valid example of SEP-23 and its invalid neighbours. */
static void sep23_vectors(void **state)
{
    (void)state;
    assert_true(account("GA7QYNF7SOWQ3GLR2BGMZEHXAVIRZA4KVWLTJJFC7MGXUA74P7UJVSGZ"));
    assert_false(account("GAAAAAAAACGC6"));                                            /* too short */
    assert_false(account("GA7QYNF7SOWQ3GLR2BGMZEHXAVIRZA4KVWLTJJFC7MGXUA74P7UJUACUSI")); /* ed25519 too long */
    assert_false(account("G47QYNF7SOWQ3GLR2BGMZEHXAVIRZA4KVWLTJJFC7MGXUA74P7UJVP2I")); /* version byte */
    assert_false(account("MA7QYNF7SOWQ3GLR2BGMZEHXAVIRZA4KVWLTJJFC7MGXUA74P7UJVAAAAAAAAAAAAAJLK"));
}

static void a_kind_is_not_another(void **state)
{
    (void)state;
    assert_false(account(NATIVE_CONTRACT));
    assert_false(qn_strkey_valid(QN_STRKEY_CONTRACT, QN_STR(ISSUER)));
    assert_false(account("SBGWSG6BTNCKCOB3DIFBGCVMUPQFYPA2G4O34RMTB343OYPXU5DJDVMN")); /* a secret seed */
}

/* One changed character, anywhere, is found: CRC-16 finds every burst of up to 16 bits. */
static void a_bad_checksum_is_refused_wherever_the_typo_is(void **state)
{
    (void)state;
    for (size_t i = 0; i < 56; i++) {
        char text[57] = ISSUER;
        text[i] = text[i] == 'A' ? 'B' : 'A';
        assert_false(account(text));
        text[i] = (char)(ISSUER[i] | 0x20); /* lower case, or a digit's neighbour */
        if (ISSUER[i] >= 'A')
            assert_false(account(text));
    }
    assert_false(account(""));
    assert_false(qn_strkey_valid(QN_STRKEY_ACCOUNT, (struct qn_str){ISSUER "\0", 57}));
    assert_false(account("GA5ZSEJYB37JRC5AVCIA5MOP4RHTM335X2KGX3IHOJAPP5RE34K4KZV="));
    assert_false(account("GA5ZSEJYB37JRC5AVCIA5MOP4RHTM335X2KGX3IHOJAPP5RE34K4KZV\xc3"));
}

static void what_is_encoded_is_valid(void **state)
{
    (void)state;
    unsigned char bytes[32];
    for (unsigned i = 0; i < 256; i++) {
        char text[57];
        memset(bytes, (int)i, sizeof bytes);
        bytes[i % 32] ^= 0x5a;
        qn_strkey_encode(QN_STRKEY_ACCOUNT, bytes, text);
        assert_int_equal(strlen(text), 56);
        assert_int_equal(text[0], 'G');
        assert_true(account(text));
        qn_strkey_encode(QN_STRKEY_CONTRACT, bytes, text);
        assert_true(qn_strkey_valid(QN_STRKEY_CONTRACT, qn_str_of(text)));
    }
    memset(bytes, 0, sizeof bytes);
    char zero[57];
    qn_strkey_encode(QN_STRKEY_ACCOUNT, bytes, zero);
    assert_string_equal(zero,
                        "GAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAWHF"); /* the well-known null account */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(real_keys_are_valid),
        cmocka_unit_test(sep23_vectors),
        cmocka_unit_test(a_kind_is_not_another),
        cmocka_unit_test(a_bad_checksum_is_refused_wherever_the_typo_is),
        cmocka_unit_test(what_is_encoded_is_valid),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
