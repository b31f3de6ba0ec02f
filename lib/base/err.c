// SPDX-License-Identifier: BSD-2-Clause
// Filling, wrapping and naming errors.
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/libbpf.h>

#include "base/err.h"

/* ENOTSUPP: the kernel's own code for "this instruction can't be probed"; no libc name. */
#define KERNEL_ENOTSUPP 524

const char *err_text(int code)
{
	static __thread char buf[128];
	int n = abs(code);

	if (n == KERNEL_ENOTSUPP)
		return "Operation not supported by the kernel (524)";
	if (n == ERR_NO_PROC)
		return "/proc is not mounted";
	if (n >= __LIBBPF_ERRNO__START) {
		libbpf_strerror(-n, buf, sizeof(buf));
		return buf;
	}
	return strerror_r(n, buf, sizeof(buf));
}

__attribute__((format(printf, 3, 0))) static void err_fill(struct err *e, int code, const char *fmt, va_list ap)
{
	e->code = code;
	e->hint[0] = '\0';
	vsnprintf(e->msg, sizeof(e->msg), fmt, ap);
}

int err_set(struct err *e, int code, const char *fmt, ...)
{
	va_list ap;

	if (!e)
		return code;
	va_start(ap, fmt);
	err_fill(e, code, fmt, ap);
	va_end(ap);
	return code;
}

int err_sys(struct err *e, int code, const char *fmt, ...)
{
	va_list ap;
	size_t len;

	if (!e)
		return code;
	va_start(ap, fmt);
	err_fill(e, code, fmt, ap);
	va_end(ap);
	len = strlen(e->msg);
	snprintf(e->msg + len, sizeof(e->msg) - len, ": %s", err_text(code));
	return code;
}

int err_wrap(struct err *e, const char *fmt, ...)
{
	char old[ERR_MSG_LEN];
	va_list ap;
	size_t len;

	if (!e)
		return -EINVAL;
	memcpy(old, e->msg, sizeof(old));
	va_start(ap, fmt);
	vsnprintf(e->msg, sizeof(e->msg), fmt, ap);
	va_end(ap);
	len = strlen(e->msg);
	snprintf(e->msg + len, sizeof(e->msg) - len, ": %s", old);
	return e->code;
}

int err_hint(struct err *e, const char *fmt, ...)
{
	va_list ap;

	if (!e)
		return -EINVAL;
	va_start(ap, fmt);
	vsnprintf(e->hint, sizeof(e->hint), fmt, ap);
	va_end(ap);
	return e->code;
}
