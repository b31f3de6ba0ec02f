// SPDX-License-Identifier: BSD-2-Clause
// Fuzzes the parser of an HTTP request's head: a status, and a path within its bytes.
#include "base/http.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int parse(const uint8_t *data, size_t size, struct http_request *r)
{
	/* An exact allocation, so that a sanitizer detects an overread. */
	char *bytes = malloc(size + !size);
	int status;

	if (!bytes)
		abort();
	memcpy(bytes, data, size);
	status = http_parse(bytes, size, r);
	if (status == 200 && (r->path < bytes || r->path + r->path_len > bytes + size ||
				     !r->path_len || *r->path != '/'))
		abort();
	free(bytes);
	return status;
}

/* A rejected or complete request stays so, with any bytes after it. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct http_request r = { HTTP_OTHER, NULL, 0 };
	int status = parse(data, size, &r);

	if (status && status != 200 && status != 400 && status != 413 && status != 431)
		abort();
	if (!status && size >= HTTP_HEAD_MAX)
		abort();
	if (size > 1) {
		int earlier = parse(data, size - 1, &r);

		if (earlier && earlier != status)
			abort();
	}
	return 0;
}
