package main

import (
	"bytes"
	"io"
)

func bytesOf(raw []byte) io.Reader { return bytes.NewReader(raw) }
