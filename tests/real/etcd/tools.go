//go:build tools

// Package etcd pins the etcd that the real API server stores its objects in.
package etcd

import _ "go.etcd.io/etcd/server/v3"
