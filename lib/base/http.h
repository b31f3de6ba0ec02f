/* SPDX-License-Identifier: BSD-2-Clause */
/* The head of one HTTP request, from whoever can reach a port. */
#ifndef FUNCSNOOP_BASE_HTTP_H
#define FUNCSNOOP_BASE_HTTP_H

#include <stddef.h>

/* A head that is longer is refused. */
#define HTTP_HEAD_MAX 8192

enum http_method { HTTP_GET, HTTP_HEAD, HTTP_OTHER };

/* The path lies in the bytes of the request, without what stands behind '?'. */
struct http_request {
	enum http_method method;
	const char *path;
	size_t path_len;
};

/*
 * Reads a head of HTTP/1.x (RFC 9112) in the first @len of its bytes. 0: there is more to
 * come; 200: it is whole, *ret_request is set; else the status that refuses it: 400, 413 (it
 * announces a body), 431. What is wrong in a line that has come is told before the rest has.
 */
int http_parse(const char *bytes, size_t len, struct http_request *ret_request);

/* The words of a status: "Not Found". */
const char *http_reason(int status);

#endif
