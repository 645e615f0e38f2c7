# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) the quoin authors
#
# QN_CHECK_FLAG(FLAG, VARIABLE): appends FLAG to VARIABLE if the compiler of the current language takes it.
AC_DEFUN([QN_CHECK_FLAG], [
    AS_VAR_PUSHDEF([cache], [qn_cv_[]_AC_LANG_ABBREV[]flags_$1])
    AC_CACHE_CHECK([whether the _AC_LANG compiler takes $1], [cache], [
        qn_check_save=$[]_AC_LANG_PREFIX[]FLAGS
        _AC_LANG_PREFIX[]FLAGS="$qn_check_save -Werror $1"
        AC_COMPILE_IFELSE([AC_LANG_PROGRAM()], [AS_VAR_SET([cache], [yes])], [AS_VAR_SET([cache], [no])])
        _AC_LANG_PREFIX[]FLAGS=$qn_check_save])
    AS_VAR_IF([cache], [yes], [$2="$$2 $1"])
    AS_VAR_POPDEF([cache])
])
