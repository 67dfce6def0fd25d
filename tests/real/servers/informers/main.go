// Command informers looks at an API server through client-go: informers, listers, typed and metadata clients,
// as controllers of other people use them. It prints what the informers saw, one line for each change, and
// fails where that is not what was done. Run on two servers, the lines must be the same.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"sort"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	namespace = "informed"
	// More than one chunk of a list, and more than one frame of a watch.
	configMaps = 600
	patience   = 30 * time.Second
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "the server to look at")
	flag.Parse()
	if err := run(*kubeconfig); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(kubeconfig string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	config.QPS, config.Burst = 1000, 1000
	plain := metadata.ConfigFor(config)
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	metadataClient, err := metadata.NewForConfig(plain)
	if err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(context.Background(), 3*time.Minute)
	defer stop()
	story := &story{ctx: ctx, client: client}
	if err := story.prepare(); err != nil {
		return fmt.Errorf("prepare: %w", err)
	}
	everything := newRecord()
	selected := newRecord()
	bare := newRecord()
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(namespace))
	web := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(namespace),
		informers.WithTweakListOptions(func(options *metav1.ListOptions) { options.LabelSelector = "app=web" }))
	metadataFactory := metadatainformer.NewFilteredSharedInformerFactory(metadataClient, 0, namespace, nil)
	everything.follow(factory.Apps().V1().Deployments().Informer())
	everything.follow(factory.Core().V1().Pods().Informer())
	maps := factory.Core().V1().ConfigMaps()
	everything.follow(maps.Informer())
	selected.follow(web.Core().V1().Pods().Informer())
	bare.follow(metadataFactory.ForResource(corev1.SchemeGroupVersion.WithResource("pods")).Informer())
	factory.Start(ctx.Done())
	web.Start(ctx.Done())
	metadataFactory.Start(ctx.Done())
	for _, synced := range factory.WaitForCacheSync(ctx.Done()) {
		if !synced {
			return fmt.Errorf("the caches did not sync")
		}
	}
	web.WaitForCacheSync(ctx.Done())
	metadataFactory.WaitForCacheSync(ctx.Done())
	found, err := maps.Lister().ConfigMaps(namespace).List(labels.SelectorFromSet(labels.Set{"made-by": "informers"}))
	if err != nil || len(found) != configMaps {
		return fmt.Errorf("the lister has %d config maps instead of %d (%v)", len(found), configMaps, err)
	}
	if err := story.play(everything, selected, bare); err != nil {
		return err
	}
	for _, part := range []struct {
		name   string
		record *record
	}{{"all", everything}, {"app=web", selected}, {"metadata", bare}} {
		part.record.print(part.name)
	}
	return nil
}

// A story is what is done to the server.
type story struct {
	ctx    context.Context
	client kubernetes.Interface
}

func (s *story) prepare() error {
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if _, err := s.client.CoreV1().Namespaces().Create(s.ctx, object, metav1.CreateOptions{}); err != nil {
		return err
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	if _, err := s.client.CoreV1().ServiceAccounts(namespace).Create(s.ctx, account, metav1.CreateOptions{}); err != nil {
		return err
	}
	for number := range configMaps {
		object := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("map-%03d", number), Labels: map[string]string{"made-by": "informers"}},
			Data:       map[string]string{"number": fmt.Sprint(number)},
		}
		if _, err := s.client.CoreV1().ConfigMaps(namespace).Create(s.ctx, object, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	_, err := s.client.CoreV1().Pods(namespace).Create(s.ctx, pod("early", "web"), metav1.CreateOptions{})
	return err
}

func (s *story) play(everything, selected, bare *record) error {
	deployments := s.client.AppsV1().Deployments(namespace)
	pods := s.client.CoreV1().Pods(namespace)
	if err := bare.wait("pod/early", 1); err != nil {
		return err
	}
	created, err := deployments.Create(s.ctx, deployment(), metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create deployment: %w", err)
	}
	if err := everything.wait("deployment/web", 1); err != nil {
		return err
	}
	three := int32(3)
	changed := created.DeepCopy()
	changed.Spec.Replicas = &three
	if _, err := deployments.Update(s.ctx, changed, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("update deployment: %w", err)
	}
	if _, err := deployments.Update(s.ctx, created, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		return fmt.Errorf("a stale update is no conflict but %v", err)
	}
	if err := everything.wait("deployment/web", 2); err != nil {
		return err
	}
	patch := []byte(`{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"web:2"}]}}}}`)
	if _, err := deployments.Patch(s.ctx, "web", types.StrategicMergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("patch deployment: %w", err)
	}
	if err := everything.wait("deployment/web", 3); err != nil {
		return err
	}
	for _, name := range []string{"a", "b"} {
		if _, err := pods.Create(s.ctx, pod(name, "web"), metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create pod: %w", err)
		}
		if err := selected.wait("pod/"+name, 1); err != nil {
			return err
		}
	}
	away := []byte(`{"metadata":{"labels":{"app":"other"}}}`)
	if _, err := pods.Patch(s.ctx, "a", types.MergePatchType, away, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("patch pod: %w", err)
	}
	if err := selected.wait("pod/a", 2); err != nil {
		return err
	}
	back := []byte(`{"metadata":{"labels":{"app":"web"}}}`)
	if _, err := pods.Patch(s.ctx, "a", types.MergePatchType, back, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("patch pod: %w", err)
	}
	if err := selected.wait("pod/a", 3); err != nil {
		return err
	}
	if err := pods.DeleteCollection(s.ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "app=web"}); err != nil {
		return fmt.Errorf("delete pods: %w", err)
	}
	background := metav1.DeletePropagationBackground
	if err := deployments.Delete(s.ctx, "web", metav1.DeleteOptions{PropagationPolicy: &background}); err != nil {
		return fmt.Errorf("delete deployment: %w", err)
	}
	if err := everything.waitForDeletion("deployment/web"); err != nil {
		return err
	}
	for _, name := range []string{"pod/early", "pod/a", "pod/b"} {
		for _, record := range []*record{everything, selected, bare} {
			if err := record.waitForDeletion(name); err != nil {
				return err
			}
		}
	}
	return nil
}

func pod(name, app string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": app}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "web:1"}}},
	}
}

func deployment() *appsv1.Deployment {
	selector := map[string]string{"app": "web"}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: selector},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: selector},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "web:1"}}},
			},
		},
	}
}

// A record is what handlers were told, by object.
type record struct {
	mutex   sync.Mutex
	changed *sync.Cond
	lines   map[string][]string
}

func newRecord() *record {
	r := &record{lines: map[string][]string{}}
	r.changed = sync.NewCond(&r.mutex)
	return r
}

func (r *record) follow(informer cache.SharedIndexInformer) {
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { r.add("added", object) },
		UpdateFunc: func(old, object any) { r.add("updated from "+described(old)+" to", object) },
		DeleteFunc: func(object any) { r.add("deleted", object) },
	})
	if err != nil {
		panic(err)
	}
}

func (r *record) add(what string, object any) {
	if unknown, missed := object.(cache.DeletedFinalStateUnknown); missed {
		what, object = "missed the deletion of", unknown.Obj
	}
	name := named(object)
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.lines[name] = append(r.lines[name], what+" "+described(object))
	r.changed.Broadcast()
}

// wait blocks until so many changes of an object were seen.
func (r *record) wait(name string, count int) error {
	return r.until(name, func(lines []string) bool { return len(lines) >= count })
}

// waitForDeletion blocks until a deletion is the last that was seen of an object.
func (r *record) waitForDeletion(name string) error {
	return r.until(name, func(lines []string) bool {
		return len(lines) > 0 && strings.HasPrefix(lines[len(lines)-1], "deleted")
	})
}

func (r *record) until(name string, fits func([]string) bool) error {
	deadline := time.Now().Add(patience)
	timer := time.AfterFunc(patience, func() { r.mutex.Lock(); r.changed.Broadcast(); r.mutex.Unlock() })
	defer timer.Stop()
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for !fits(r.lines[name]) {
		if time.Now().After(deadline) {
			return fmt.Errorf("of %s only this was seen: %q", name, r.lines[name])
		}
		r.changed.Wait()
	}
	return nil
}

func (r *record) print(title string) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	names := make([]string, 0, len(r.lines))
	for name := range r.lines {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		for _, line := range r.lines[name] {
			fmt.Printf("%s %s: %s\n", title, name, line)
		}
	}
}

func named(object any) string {
	accessor, err := meta.Accessor(object)
	if err != nil {
		return fmt.Sprintf("%T", object)
	}
	switch object.(type) {
	case *appsv1.Deployment:
		return "deployment/" + accessor.GetName()
	case *corev1.ConfigMap:
		return "configmap/" + accessor.GetName()
	default:
		return "pod/" + accessor.GetName()
	}
}

// described says what two servers must have in common.
func described(object any) string {
	switch typed := object.(type) {
	case *appsv1.Deployment:
		image := typed.Spec.Template.Spec.Containers[0].Image
		return fmt.Sprintf("generation %d, %d replicas of %s, %s", typed.Generation, *typed.Spec.Replicas, image, typed.Spec.Strategy.Type)
	case *corev1.Pod:
		return fmt.Sprintf("%s as %s, %s, %s", typed.Labels["app"], typed.Spec.ServiceAccountName, typed.Status.Phase, typed.Status.QOSClass)
	case *corev1.ConfigMap:
		return fmt.Sprintf("with %d entries", len(typed.Data))
	case *metav1.PartialObjectMetadata:
		return typed.Labels["app"]
	}
	return fmt.Sprintf("%T", object)
}
