/* SPDX-License-Identifier: BSD-2-Clause */
/* Parses the head of an HTTP request, which may come from any client that can reach the port. */
#pragma once

#include <stddef.h>

/* A longer head is rejected. */
#define HTTP_HEAD_MAX 8192

enum http_method { HTTP_GET, HTTP_HEAD, HTTP_OTHER };

/* The path points into the bytes of the request, without the part from '?' on. */
struct http_request {
	enum http_method method;
	const char *path;
	size_t path_len;
};

/*
 * Parses a head of HTTP/1.x (RFC 9112) in the first @len bytes. Returns 0 if it is incomplete, 200
 * if it is complete and *ret_request is set, or the error status: 400, 413 (it announces a body),
 * 431. An error in a received line is reported before the rest arrives.
 */
int http_parse(const char *bytes, size_t len, struct http_request *ret_request);

/* Returns the text of a status: "Not Found". */
const char *http_reason(int status);
