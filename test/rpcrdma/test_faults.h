/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RPCRDMA_TEST_FAULTS_H
#define RPCRDMA_TEST_FAULTS_H

/** @file Declares the cases of test_faults.c for the table in test_endpoint.c. */

void test_refusals(void);
void test_transport_errors(void);
void test_versions(void);
void test_properties(void);
void test_error_codes(void);
void test_bad_replies(void);
void test_rpc_header(void);
void test_flood(void);
void test_fuzz_server(void);
void test_fuzz_client(void);

#define FAULT_CASES                                                                                \
	{"refusals", test_refusals}, {"transport errors", test_transport_errors},                  \
	        {"versions", test_versions}, {"properties", test_properties},                      \
	        {"every error ends its call", test_error_codes},                                   \
	        {"bad replies", test_bad_replies}, {"RPC header", test_rpc_header},                \
	        {"flood", test_flood}, {"fuzz the server", test_fuzz_server},                      \
	{                                                                                          \
		"fuzz the client", test_fuzz_client                                                \
	}

#endif /* RPCRDMA_TEST_FAULTS_H */
