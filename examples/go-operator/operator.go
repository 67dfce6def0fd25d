// Package operator copies each ConfigMap that is labelled for it: the smallest operator that owns something.
package operator

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// Label marks the ConfigMaps that are copied.
const Label = "example.com/copy"

// Copier keeps a copy of each labelled ConfigMap, which it owns.
type Copier struct {
	client.Client
}

// SetupWithManager watches the originals and the copies.
func (c *Copier) SetupWithManager(manager ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(manager).For(&corev1.ConfigMap{}).Owns(&corev1.ConfigMap{}).Complete(c)
}

// Reconcile makes the copy what the original is.
func (c *Copier) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var original corev1.ConfigMap
	if err := c.Get(ctx, request.NamespacedName, &original); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if _, wanted := original.Labels[Label]; !wanted || original.DeletionTimestamp != nil {
		return ctrl.Result{}, nil
	}
	copied := corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: original.Namespace, Name: original.Name + "-copy"}}
	_, err := controllerutil.CreateOrUpdate(ctx, c.Client, &copied, func() error {
		copied.Data = original.Data
		return controllerutil.SetControllerReference(&original, &copied, c.Scheme())
	})
	return ctrl.Result{}, err
}
