/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What make lint tells clang-tidy of the code beforehand: no error's code is 0. Without it
 * each function that fails with `return err_sys(err, -errno, ...)` would seem to succeed.
 */
#include "base/err.h"

#define LINT_ERR(fn, e, code, ...)                                                            \
	({                                                                                    \
		int _lint_code = (code);                                                      \
		(fn)(e, _lint_code, __VA_ARGS__);                                             \
		if (_lint_code >= 0)                                                          \
			__builtin_unreachable();                                              \
		_lint_code;                                                                   \
	})
#define err_set(e, code, ...) LINT_ERR(err_set, e, code, __VA_ARGS__)
#define err_sys(e, code, ...) LINT_ERR(err_sys, e, code, __VA_ARGS__)
