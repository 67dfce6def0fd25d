package operator

import (
	"context"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// KUBEBUILDER_ASSETS says which control plane this runs on: the real one, or `steersman envtest FOLDER`.
func TestCopiesFollowTheirOriginals(t *testing.T) {
	environment := &envtest.Environment{}
	began := time.Now()
	config, err := environment.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the control plane started in %v", time.Since(began))
	t.Cleanup(func() {
		if err := environment.Stop(); err != nil {
			t.Error(err)
		}
	})
	manager, err := ctrl.NewManager(config, ctrl.Options{Metrics: server.Options{BindAddress: "0"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := (&Copier{Client: manager.GetClient()}).SetupWithManager(manager); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		if err := manager.Start(ctx); err != nil {
			t.Error(err)
		}
	}()
	direct, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}

	original := corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "original", Labels: map[string]string{Label: ""}},
		Data:       map[string]string{"key": "value"},
	}
	if err := direct.Create(ctx, &original); err != nil {
		t.Fatal(err)
	}
	key := client.ObjectKey{Namespace: "default", Name: "original-copy"}
	var copied corev1.ConfigMap
	eventually(t, "the copy is made", func() bool {
		return direct.Get(ctx, key, &copied) == nil && copied.Data["key"] == "value"
	})

	if os.Getenv("STEERSMAN_CONTROLLERS") == "" {
		t.Log("without STEERSMAN_CONTROLLERS nobody collects what owners leave behind")
		return
	}
	if err := direct.Delete(ctx, &original); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the copy is collected", func() bool {
		return apierrors.IsNotFound(direct.Get(ctx, key, &copied))
	})
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within 30 s", what)
		}
	}
}
