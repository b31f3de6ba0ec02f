// SPDX-License-Identifier: BSD-2-Clause
/* Heads of HTTP requests, byte by byte. */
#include "base/http.h"

#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "tap.h"

/* The status that comes first when bytes come one by one, as from a slow network. */
static int parse_slowly(const char *bytes, size_t len, struct http_request *r)
{
	int status = 0;

	for (size_t i = 0; !status && i <= len; i++) {
		/* An exact allocation, so that a sanitizer detects an overread. */
		char *copy = malloc(i + !i);

		memcpy(copy, bytes, i);
		status = http_parse(copy, i, r);
		free(copy);
	}
	return status;
}

static void test_requests(void)
{
	static const struct {
		const char *text;
		int status;
		enum http_method method;
		const char *path;
	} cases[] = {
		{ "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n", 200, HTTP_GET, "/metrics" },
		{ "GET /metrics?x=/y HTTP/1.0\n\n", 200, HTTP_GET, "/metrics" },
		{ "\r\nHEAD / HTTP/1.1\r\nhOST:\r\nA:\tb \r\n\r\nrest", 200, HTTP_HEAD, "/" },
		{ "get / HTTP/1.0\r\n\r\n", 200, HTTP_OTHER, "/" },
		{ "GET http://h:1/x HTTP/1.1\r\nHost: h\r\n\r\n", 200, HTTP_GET, "/x" },
		{ "GET / HTTP/1.0\r\nContent-Length: 00\r\n\r\n", 200, HTTP_GET, "/" },
		{ "POST / HTTP/1.0\r\nContent-Length: 1\r\n\r\n", 413, 0, NULL },
		{ "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 413, 0, NULL },
		{ "GET / HTTP/1.1\r\n\r\n", 400, 0, NULL },
		{ "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400, 0, NULL },
		{ "GET / HTTP/1.0\r\nContent-Length: -1\r\n\r\n", 400, 0, NULL },
		{ "GET / HTTP/1.0\r\nContent-Length: \r\n\r\n", 400, 0, NULL },
		{ "GET / HTTP/1.0\r\n folded\r\n", 400, 0, NULL },
		{ "GET / HTTP/1.0\r\nName : x\r\n", 400, 0, NULL },
		{ "GET / HTTP/1.0\r\nno colon\r\n", 400, 0, NULL },
		{ "GET / HTTP/1.0\r\nA: b\x01\r\n", 400, 0, NULL },
		{ "GET / HTTP/2.0\r\n", 400, 0, NULL },
		{ "GET / HTTP/1.1 \r\n", 400, 0, NULL },
		{ "GET  / HTTP/1.1\r\n", 400, 0, NULL },
		{ "GET /\r\n", 400, 0, NULL },
		{ "GET metrics HTTP/1.1\r\n", 400, 0, NULL },
		{ "GET http://h HTTP/1.1\r\n", 400, 0, NULL },
		{ "GET /\xc3\xa4 HTTP/1.1\r\n", 400, 0, NULL },
		{ "\r\n\r\n", 400, 0, NULL },
		{ "\x16\x03\x01", 400, 0, NULL },
		{ "(", 400, 0, NULL },
		{ "GET / HTTP/1.1\r\nHost: a\r\n", 0, 0, NULL },
		{ "GET /metr", 0, 0, NULL },
		{ "", 0, 0, NULL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct http_request r = {};
		size_t len = strlen(cases[i].text);

		ok(parse_slowly(cases[i].text, len, &r) == cases[i].status,
			"request %zu has status %d", i, cases[i].status);
		if (!cases[i].path)
			continue;
		is_int(http_parse(cases[i].text, len, &r), 200, "it is whole");
		ok(r.method == cases[i].method && r.path_len == strlen(cases[i].path) &&
				!memcmp(r.path, cases[i].path, r.path_len),
			"and is for %s", cases[i].path);
	}
}

static void test_limits(void)
{
	static char big[HTTP_HEAD_MAX + 100];
	struct http_request r;

	memset(big, 'a', sizeof(big));
	is_int(http_parse(big, HTTP_HEAD_MAX - 1, &r), 0, "a long line may go on");
	is_int(http_parse(big, HTTP_HEAD_MAX, &r), 431, "but not for ever");
	memcpy(big, "GET / HTTP/1.0\r\nA: ", 19);
	memcpy(big + HTTP_HEAD_MAX - 4, "\r\n\r\n", 4);
	is_int(http_parse(big, sizeof(big), &r), 200, "the longest head is taken");
	memcpy(big + HTTP_HEAD_MAX - 4, "a\r\n\r\n", 5);
	is_int(http_parse(big, sizeof(big), &r), 431, "one more byte is too many");
	is_int(http_parse("GET / HTTP/1.0\r\nA: \0\r\n\r\n", 24, &r), 400,
		"a zero byte is no text");
}

int main(void)
{
	test_requests();
	test_limits();
	is_str(http_reason(431), "Request Header Fields Too Large", "statuses have words");
	is_str(http_reason(500), "Internal Server Error", "and failures of our own");
	return tap_done();
}
