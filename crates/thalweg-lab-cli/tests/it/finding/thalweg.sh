#!/bin/sh
# A program that prints its path as its version, and ends when it is to serve.
[ "$1" != --version ] || echo "thalweg $0"
