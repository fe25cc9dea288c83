// Package trace reads recorded traffic, for simulations.
//
// Each file has one of these formats, plain or compressed by gzip:
//
//	format                 line
//	JSON lines             {"time":"2026-01-02T15:04:05Z","key":"192.0.2.1","request":"GET /a HTTP/1.1"}
//	common log format      192.0.2.1 - ann [02/Jan/2026:15:04:05 +0000] "GET /a HTTP/1.1" 200 512
//	combined log format    the same, and more at the end of the line
//	CSV with a header      time,key,cost      (the columns may have another order)
//	CSV without a header   1767366245.25,192.0.2.1,1,pro,GET /a
//
// The fields of JSON lines and CSV are found by their names. The first name whose field has a text
// counts. [Fields] can choose another name for each row with a star.
//
//	time *      time, ts, timestamp, @timestamp, time_iso8601, msec
//	key *       key, client_ip, remote_ip, remote_addr, request.client_ip, request.remote_ip
//	cost *      cost
//	plan *      plan
//	request *   request; then method, request_method or request.method, before path, uri, request_uri,
//	            url, or one of path, uri and url below request; then route
//	status      status
//
// A name with dots is a member of an object in JSON, such as remote_ip of request, or has the dots
// itself. The common log format has the key remote_addr, or remote_user if it is chosen. Before an
// address, it may have a virtual host, or the words that a collector of logs adds, such as a time and
// the name of a container. A host name has to be the first word of a line. CSV without a header has
// the columns time, key, cost, plan and route; the columns from the second on may be absent or empty,
// except for the key.
//
// A time is a Unix time in seconds, milliseconds, microseconds or nanoseconds, recognized by its size
// and exact to microseconds; or a text such as 2026-01-02T15:04:05.25Z, 02/Jan/2026:15:04:05 +0000 or
// 2026-01-02 15:04:05, which is UTC.
//
// A key that is an address, with or without a port, becomes the key that keyfunc.RemoteIP returns for
// the client. A text that contains an address and other text, such as a list of addresses, is no key.
// Any other key is used unchanged. A request becomes its method and path, without the query. "-" means
// that a field is absent. NULs at the beginning of a line are ignored.
package trace
